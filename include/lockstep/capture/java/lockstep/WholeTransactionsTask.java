package lockstep;

import io.debezium.config.Configuration;
import io.debezium.connector.postgresql.PostgresConnectorTask;
import io.debezium.pipeline.ChangeEventSourceCoordinator;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.connect.source.SourceRecord;

/**
 * Debezium's task, whose records leave the end of the last whole transaction as the place to go on
 * from. It is done here and not in a transform: Connect stores the offset of the record as it was
 * before its transforms.
 */
public class WholeTransactionsTask extends PostgresConnectorTask {

    private WholeTransactions places;

    /** Also Debezium's own restart after an error: what it had read by then is read again. */
    public ChangeEventSourceCoordinator start(Configuration config) {
        places = new WholeTransactions();
        return super.start(config);
    }

    public List doPoll() throws InterruptedException {
        List records = super.doPoll();
        List placed = new ArrayList(records.size());
        for (int i = 0; i < records.size(); i++) {
            placed.add(places.placed((SourceRecord) records.get(i)));
        }
        return placed;
    }
}
