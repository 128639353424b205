package lockstep;

import java.util.Iterator;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.types.StructType;

/** Records (offset bigint, value binary) as a few rows: Spark hands Python its rows one by one. */
public class RecordPacks implements MapPartitionsFunction {

    private static final StructType PACKS =
        StructType.fromDDL("partition int, offsets array<bigint>, values array<binary>");

    /** The same records in their order, up to so many in a row; all rows are of partition 0. */
    public static Dataset of(Dataset records, int mostRecords) {
        return records.mapPartitions(new RecordPacks(mostRecords), Encoders.row(PACKS));
    }

    private final int mostRecords;

    private RecordPacks(int mostRecords) {
        this.mostRecords = mostRecords;
    }

    public Iterator call(Iterator records) {
        return new Packs(records, mostRecords);
    }
}

class Packs implements Iterator {

    private final Iterator records;
    private final Object[] offsets;
    private final Object[] values;

    Packs(Iterator records, int mostRecords) {
        this.records = records;
        offsets = new Object[mostRecords];
        values = new Object[mostRecords];
    }

    public boolean hasNext() {
        return records.hasNext();
    }

    public Object next() {
        int count = 0;
        while (count < offsets.length && records.hasNext()) {
            Row record = (Row) records.next();
            offsets[count] = record.get(0);
            values[count] = record.get(1);
            count++;
        }
        return RowFactory.create(new Object[] {
            Integer.valueOf(0),
            java.util.Arrays.copyOf(offsets, count),
            java.util.Arrays.copyOf(values, count),
        });
    }
}
