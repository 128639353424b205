CREATE OR REPLACE FUNCTION "freight"."lockstep_time__consignments_packed"() RETURNS trigger LANGUAGE plpgsql AS $lockstep$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'integrity_constraint_violation', MESSAGE = 'booked_at of freight.consignments decides which window of pipeline consignments_packed a row is in: it cannot change',
        HINT = 'Delete the row and insert it with the other time.';
END;
$lockstep$;
CREATE OR REPLACE TRIGGER "lockstep_time__consignments_packed" AFTER UPDATE ON "freight"."consignments"
FOR EACH ROW WHEN (OLD."booked_at" IS DISTINCT FROM NEW."booked_at") EXECUTE FUNCTION "freight"."lockstep_time__consignments_packed"();
CREATE TABLE IF NOT EXISTS "freight"."packed_outbox" (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    published_at timestamptz NOT NULL DEFAULT now(),
    payload text NOT NULL
);
GRANT USAGE ON SCHEMA "freight" TO "batch_reader";
GRANT SELECT ON "freight"."packed_outbox" TO "batch_reader";
GRANT USAGE ON SCHEMA "freight" TO "cdc";
GRANT SELECT ON "freight"."packed_outbox" TO "cdc";
CREATE OR REPLACE FUNCTION "freight"."lockstep_publish__consignments_packed"(uuid, text)
RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $lockstep$
#variable_conflict use_column
DECLARE
    published text;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'lockstep_publish__consignments_packed needs READ COMMITTED, not %',
            upper(current_setting('transaction_isolation'));
    END IF;
    IF $2 IS NULL OR $2 NOT IN ('c', 'u', 'd') THEN
        RAISE EXCEPTION 'lockstep_publish__consignments_packed: op must be c, u or d, not %', coalesce($2, 'null');
    END IF;
    PERFORM FROM "freight"."consignments" WHERE "consignment" = $1 FOR NO KEY UPDATE;
    PERFORM FROM "freight"."goods" WHERE "goods_code" IN (SELECT "goods_code" FROM "freight"."consignment_lines" WHERE "consignment" IN (SELECT "consignment" FROM "freight"."consignments" WHERE "consignment" = $1)) ORDER BY "goods_code" FOR SHARE;
    published := (SELECT row_to_json(one)::text FROM (SELECT $2 AS op, CAST("consignment" AS text) AS "consignment", "booked_at" AS "booked_at", CAST("delivery" AS text) AS "delivery", "line_count" AS "line_count", "total_weight" AS "total_weight", "packed" AS "packed" FROM "freight"."consignments_packed_in" WHERE "consignment" = $1) AS one);
    IF (published IS NULL) <> ($2 = 'd') THEN
        RAISE EXCEPTION 'lockstep_publish__consignments_packed: freight.consignments_packed_in has % row of this key, so op cannot be %',
            CASE WHEN published IS NULL THEN 'no' ELSE 'a' END, $2;
    END IF;
    IF published IS NULL THEN
        published := (SELECT row_to_json(one)::text FROM (SELECT 'd' AS op, CAST("consignment" AS text) AS "consignment" FROM (SELECT CAST($1 AS uuid) AS "consignment") AS deleted) AS one);
    END IF;
    INSERT INTO "freight"."packed_outbox" (payload) VALUES (published);
    PERFORM pg_logical_emit_message(true, 'lockstep.message.consignments_packed', published);
END;
$lockstep$;
REVOKE ALL ON FUNCTION "freight"."lockstep_publish__consignments_packed"(uuid, text) FROM PUBLIC;
-- For each role of an application that publishes: GRANT EXECUTE ON FUNCTION "freight"."lockstep_publish__consignments_packed"(uuid, text) TO …;
