package lockstep;

import java.math.BigInteger;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext$;
import org.apache.spark.TaskContextImpl;
import org.apache.spark.executor.TaskMetrics;
import org.apache.spark.memory.MemoryManager;
import org.apache.spark.memory.TaskMemoryManager;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.expressions.AttributeMap;
import org.apache.spark.sql.catalyst.plans.logical.Statistics;
import org.apache.spark.sql.catalyst.plans.physical.SinglePartition$;
import org.apache.spark.sql.catalyst.types.DataTypeUtils$;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.arrow.ArrowConverters$;
import org.apache.spark.sql.execution.exchange.Exchange;
import org.apache.spark.sql.execution.exchange.ReusedExchangeExec;
import org.apache.spark.sql.types.DataType$;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Nil$;
import scala.jdk.javaapi.CollectionConverters;
import scala.math.BigInt;

/**
 * A query over a few rows: planned once, and run in the thread that asks, without Spark's scheduler.
 *
 * Its views are KeptRows, of which the plan reads what they hold when it runs. That is right for a
 * plan which is one task and keeps nothing between two runs: an exchange or a subquery would keep
 * its rows. For one thread.
 */
public class KeptPlan {

    /** The planner multiplies the sizes of joined views, and exchanges the rows of large ones. */
    private static final long VIEW_BYTES = 1;
    private static final AtomicLong RUNS = new AtomicLong();

    private final SparkSession session;
    private final Map views = new HashMap();
    private StructType schema;
    private RDD result;
    private Properties settings;

    public KeptPlan(SparkSession session) {
        this.session = session;
    }

    /** Make a view without rows. schema: as Spark writes it in JSON. */
    public void addView(String name, String schema) {
        KeptRows rows = new KeptRows(session.sparkContext());
        Statistics small = new Statistics(
            new BigInt(BigInteger.valueOf(VIEW_BYTES)),
            Option.empty(),
            new AttributeMap(Map$.MODULE$.empty()),
            false);
        LogicalRDD leaf = new LogicalRDD(
            DataTypeUtils$.MODULE$.toAttributes((StructType) DataType$.MODULE$.fromJson(schema)),
            rows,
            SinglePartition$.MODULE$,
            Nil$.MODULE$,
            false,
            Option.empty(),
            session,
            Option.apply(small),
            Option.empty());
        Dataset all = Dataset$.MODULE$.ofRows(session, leaf);
        ((Dataset) all.hint("shuffle_hash", Nil$.MODULE$)).createOrReplaceTempView(name);
        views.put(name, rows);
    }

    /** stream: the rows from now on, an Arrow IPC stream. */
    public void replace(String view, byte[] stream) throws Exception {
        ((KeptRows) views.get(view)).replace(stream);
    }

    /** Keep the plan of a query over the views; returns whether that is right for it. */
    public boolean keep(Dataset query) {
        SparkPlan plan = query.queryExecution().executedPlan();
        if (!keepsNothing(plan)) {
            return false;
        }
        result = plan.execute();
        schema = query.schema();
        settings = new Properties();
        settings.putAll(CollectionConverters.asJava(session.sessionState().conf().getAllConfs()));
        return result.partitions().length == 1;
    }

    private static boolean keepsNothing(SparkPlan plan) {
        boolean keeps = plan instanceof Exchange || plan instanceof ReusedExchangeExec;
        if (keeps || plan.subqueries().nonEmpty()) {
            return false;
        }
        Iterator children = plan.children().iterator();
        while (children.hasNext()) {
            if (!keepsNothing((SparkPlan) children.next())) {
                return false;
            }
        }
        return true;
    }

    /**
     * The rows of the query's result, an Arrow IPC stream; null when there are none.
     *
     * In Base64: Py4J gives bytes to Python one by one.
     */
    public String run() {
        Option activeBefore = SparkSession.getActiveSession(); // of a micro-batch, it may be
        SparkEnv env = SparkEnv.get();
        MemoryManager memory = env.memoryManager();
        long run = -RUNS.incrementAndGet(); // no task of the scheduler's has a negative number
        TaskMemoryManager pages = new TaskMemoryManager(memory, run);
        TaskContextImpl context = new TaskContextImpl(
            0,
            0,
            0,
            run,
            0,
            1,
            pages,
            settings,
            env.metricsSystem(),
            TaskMetrics.empty(),
            1,
            Map$.MODULE$.empty());
        SparkSession.setActiveSession(session);
        TaskContext$.MODULE$.setTaskContext(context);
        try {
            Iterator rows = result.iterator(result.partitions()[0], context);
            Iterator streams = ArrowConverters$.MODULE$.toBatchWithSchemaIterator(
                rows, schema, 0, Long.MAX_VALUE, "UTC", true, false);
            if (!streams.hasNext()) {
                return null;
            }
            return Base64.getEncoder().encodeToString((byte[]) streams.next());
        } finally {
            context.markTaskCompleted(Option.empty());
            TaskContext$.MODULE$.unset();
            SparkSession.clearActiveSession();
            if (activeBefore.isDefined()) {
                SparkSession.setActiveSession((SparkSession) activeBefore.get());
            }
            pages.cleanUpAllAllocatedMemory();
            memory.releaseAllExecutionMemoryForTask(run);
        }
    }
}
