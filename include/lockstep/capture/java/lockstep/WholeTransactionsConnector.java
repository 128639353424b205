package lockstep;

import io.debezium.connector.postgresql.PostgresConnector;

/** Debezium's PostgreSQL connector, begun again with whole transactions: WholeTransactionsTask. */
public class WholeTransactionsConnector extends PostgresConnector {

    public Class taskClass() {
        return WholeTransactionsTask.class;
    }
}
