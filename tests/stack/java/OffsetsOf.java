import java.util.HashMap;
import java.util.Map;
import lockstep.WholeTransactions;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.source.SourceRecord;

/** Prints the offsets that records KIND:LSN:COMMIT leave, one a line; a COMMIT of - is none. */
public class OffsetsOf {

    public static void main(String[] records) {
        WholeTransactions places = new WholeTransactions();
        for (int i = 0; i < records.length; i++) {
            Map offset = places.placed(record(records[i].split(":"))).sourceOffset();
            System.out.println(offset.get("lsn") + " " + offset.get("lsn_commit"));
        }
    }

    private static SourceRecord record(String[] parts) {
        Map offset = new HashMap();
        offset.put("lsn", Long.valueOf(parts[1]));
        offset.put("lsn_proc", Long.valueOf(parts[1]));
        offset.put("messageType", "INSERT");
        offset.put("transaction_id", "7");
        if (!"-".equals(parts[2])) {
            offset.put("lsn_commit", Long.valueOf(parts[2]));
        }
        if ("snapshot".equals(parts[0])) {
            offset.put("snapshot", "INITIAL");
        }
        boolean isBeginOrEnd = "begin".equals(parts[0]) || "end".equals(parts[0]);
        String name = isBeginOrEnd ? "TransactionMetadataValue" : "Heartbeat";
        Schema schema = SchemaBuilder.struct().name("io.debezium.connector.common." + name).build();
        return new SourceRecord(new HashMap(), offset, "topic", schema, null);
    }
}
