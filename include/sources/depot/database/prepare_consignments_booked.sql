CREATE OR REPLACE FUNCTION "freight"."lockstep_time__consignments_booked"() RETURNS trigger LANGUAGE plpgsql AS $lockstep$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'integrity_constraint_violation', MESSAGE = 'booked_at of freight.consignments decides which window of pipeline consignments_booked a row is in: it cannot change',
        HINT = 'Delete the row and insert it with the other time.';
END;
$lockstep$;
CREATE OR REPLACE TRIGGER "lockstep_time__consignments_booked" AFTER UPDATE ON "freight"."consignments"
FOR EACH ROW WHEN (OLD."booked_at" IS DISTINCT FROM NEW."booked_at") EXECUTE FUNCTION "freight"."lockstep_time__consignments_booked"();
CREATE TABLE IF NOT EXISTS "freight"."consignments_outbox" (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    published_at timestamptz NOT NULL DEFAULT now(),
    payload text NOT NULL
);
GRANT USAGE ON SCHEMA "freight" TO "batch_reader";
GRANT SELECT ON "freight"."consignments_outbox" TO "batch_reader";
GRANT USAGE ON SCHEMA "freight" TO "cdc";
GRANT SELECT ON "freight"."consignments_outbox" TO "cdc";
CREATE OR REPLACE FUNCTION "freight"."lockstep_publish__consignments_booked"(uuid, text)
RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $lockstep$
#variable_conflict use_column
DECLARE
    published text;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'lockstep_publish__consignments_booked needs READ COMMITTED, not %',
            upper(current_setting('transaction_isolation'));
    END IF;
    IF $2 IS NULL OR $2 NOT IN ('c', 'u', 'd') THEN
        RAISE EXCEPTION 'lockstep_publish__consignments_booked: op must be c, u or d, not %', coalesce($2, 'null');
    END IF;
    PERFORM FROM "freight"."consignments" WHERE "consignment" = $1 FOR UPDATE;
    PERFORM FROM "freight"."customers" WHERE ("branch", "customer_no") IN (SELECT "branch", "customer_no" FROM "freight"."consignments" WHERE "consignment" = $1) ORDER BY "branch", "customer_no" FOR SHARE;
    PERFORM FROM "freight"."regions" WHERE "region_code" IN (SELECT "region_code" FROM "freight"."customers" WHERE ("branch", "customer_no") IN (SELECT "branch", "customer_no" FROM "freight"."consignments" WHERE "consignment" = $1)) ORDER BY "region_code" FOR SHARE;
    published := (SELECT row_to_json(one)::text FROM (SELECT $2 AS op, CAST("consignment" AS text) AS "consignment", "booked_at" AS "booked_at", CAST("delivery" AS text) AS "delivery", CAST("memo" AS text) AS "memo", CAST("company" AS text) AS "company", CAST("contract" AS text) AS "contract", CAST("region_title" AS text) AS "region_title", "surcharge" AS "surcharge" FROM "freight"."consignments_booked_in" WHERE "consignment" = $1) AS one);
    IF (published IS NULL) <> ($2 = 'd') THEN
        RAISE EXCEPTION 'lockstep_publish__consignments_booked: freight.consignments_booked_in has % row of this key, so op cannot be %',
            CASE WHEN published IS NULL THEN 'no' ELSE 'a' END, $2;
    END IF;
    IF published IS NULL THEN
        published := (SELECT row_to_json(one)::text FROM (SELECT 'd' AS op, CAST("consignment" AS text) AS "consignment" FROM (SELECT CAST($1 AS uuid) AS "consignment") AS deleted) AS one);
    END IF;
    INSERT INTO "freight"."consignments_outbox" (payload) VALUES (published);
    PERFORM pg_logical_emit_message(true, 'lockstep.message.consignments_booked', published);
END;
$lockstep$;
REVOKE ALL ON FUNCTION "freight"."lockstep_publish__consignments_booked"(uuid, text) FROM PUBLIC;
-- For each role of an application that publishes: GRANT EXECUTE ON FUNCTION "freight"."lockstep_publish__consignments_booked"(uuid, text) TO …;
