package lockstep;

import java.util.ArrayList;
import org.apache.spark.Partition;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.arrow.ArrowConverters$;
import org.apache.spark.sql.util.CloseableIterator;
import scala.collection.Iterator;
import scala.collection.immutable.Nil$;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;

/** A relation of one partition whose rows are replaced while the plans that read it stay. */
public class KeptRows extends RDD {

    private ArrayList rows = new ArrayList();

    public KeptRows(SparkContext context) {
        super(context, Nil$.MODULE$, ClassTag$.MODULE$.apply(InternalRow.class));
    }

    /** stream: the new rows as an Arrow IPC stream. */
    public void replace(byte[] stream) throws Exception {
        ArrayList found = new ArrayList();
        CloseableIterator read =
            (CloseableIterator) ArrowConverters$.MODULE$.fromIPCStream(stream)._1();
        try {
            while (read.hasNext()) {
                found.add(((InternalRow) read.next()).copy());
            }
        } finally {
            read.close();
        }
        rows = found;
    }

    public Partition[] getPartitions() {
        return new Partition[] {new OnlyPartition()};
    }

    public Iterator compute(Partition partition, TaskContext context) {
        return CollectionConverters.asScala(rows.iterator());
    }
}

class OnlyPartition implements Partition {

    public int index() {
        return 0;
    }

    public boolean org$apache$spark$Partition$$super$equals(Object other) {
        return super.equals(other);
    }
}
