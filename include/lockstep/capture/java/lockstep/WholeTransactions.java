package lockstep;

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.connect.source.SourceRecord;

/**
 * Follows one task's records in their order and gives each of them, as its offset, the end of the
 * last transaction whose END has passed. From there the server sends every later transaction whole.
 *
 * Debezium's own offsets lie within transactions. To go on from one it searches the log for an equal
 * position and drops what comes before; but rows of one COPY share a position, changes of several
 * transactions interleave, and the end of one transaction is often the position of another's first
 * change. So it drops changes that were never written, and as it counts only what it did not drop,
 * END says less, too. An offset without `lsn_proc` is one that it does not search for.
 *
 * The offset is also what Debezium confirms to the server, which therefore keeps every transaction
 * until its END is written. A heartbeat at the commit comes before the END and says that all is
 * done: only BEGIN and END are believed.
 *
 * Records of an initial snapshot keep their offsets. Incremental snapshots are not supported: an
 * offset holds nothing of them.
 */
public class WholeTransactions {

    private static final String TRANSACTION_SCHEMA =
            "io.debezium.connector.common.TransactionMetadataValue";

    private Object passed;

    public SourceRecord placed(SourceRecord record) {
        Map offset = record.sourceOffset();
        if (offset == null || offset.get("lsn") == null || offset.get("snapshot") != null) {
            return record;
        }
        boolean isBeginOrEnd = record.valueSchema() != null
                && TRANSACTION_SCHEMA.equals(record.valueSchema().name());
        if (isBeginOrEnd || passed == null) {
            passed = offset.get("lsn_commit");
        }
        // The first transaction ever: no other ended before it, so that it can begin at its BEGIN.
        if (isBeginOrEnd && passed == null) {
            passed = offset.get("lsn");
        }
        return passed == null ? record : withOffset(record, at(passed, offset.get("ts_usec")));
    }

    private static Map at(Object position, Object time) {
        Map offset = new HashMap();
        offset.put("lsn", position);
        offset.put("lsn_commit", position);
        if (time != null) {
            offset.put("ts_usec", time);
        }
        return offset;
    }

    private static SourceRecord withOffset(SourceRecord record, Map offset) {
        return new SourceRecord(
                record.sourcePartition(), offset, record.topic(), record.kafkaPartition(),
                record.keySchema(), record.key(), record.valueSchema(), record.value(),
                record.timestamp(), record.headers());
    }
}
