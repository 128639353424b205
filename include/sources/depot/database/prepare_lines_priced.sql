CREATE OR REPLACE FUNCTION "freight"."lockstep_time__lines_priced"() RETURNS trigger LANGUAGE plpgsql AS $lockstep$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'integrity_constraint_violation', MESSAGE = 'packed_at of freight.consignment_lines decides which window of pipeline lines_priced a row is in: it cannot change',
        HINT = 'Delete the row and insert it with the other time.';
END;
$lockstep$;
CREATE OR REPLACE TRIGGER "lockstep_time__lines_priced" AFTER UPDATE ON "freight"."consignment_lines"
FOR EACH ROW WHEN (OLD."packed_at" IS DISTINCT FROM NEW."packed_at") EXECUTE FUNCTION "freight"."lockstep_time__lines_priced"();
CREATE TABLE IF NOT EXISTS "freight"."lines_outbox" (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    published_at timestamptz NOT NULL DEFAULT now(),
    payload text NOT NULL
);
GRANT USAGE ON SCHEMA "freight" TO "batch_reader";
GRANT SELECT ON "freight"."lines_outbox" TO "batch_reader";
GRANT USAGE ON SCHEMA "freight" TO "cdc";
GRANT SELECT ON "freight"."lines_outbox" TO "cdc";
CREATE OR REPLACE FUNCTION "freight"."lockstep_publish__lines_priced"(uuid, smallint, text)
RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $lockstep$
#variable_conflict use_column
DECLARE
    published text;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'lockstep_publish__lines_priced needs READ COMMITTED, not %',
            upper(current_setting('transaction_isolation'));
    END IF;
    IF $3 IS NULL OR $3 NOT IN ('c', 'u', 'd') THEN
        RAISE EXCEPTION 'lockstep_publish__lines_priced: op must be c, u or d, not %', coalesce($3, 'null');
    END IF;
    PERFORM FROM "freight"."consignment_lines" WHERE "consignment" = $1 AND "line_no" = $2 FOR UPDATE;
    PERFORM FROM "freight"."goods" WHERE "goods_code" IN (SELECT "goods_code" FROM "freight"."consignment_lines" WHERE "consignment" = $1 AND "line_no" = $2) ORDER BY "goods_code" FOR SHARE;
    PERFORM FROM "freight"."consignments" WHERE "consignment" IN (SELECT "consignment" FROM "freight"."consignment_lines" WHERE "consignment" = $1 AND "line_no" = $2) ORDER BY "consignment" FOR SHARE;
    PERFORM FROM "freight"."customers" WHERE ("branch", "customer_no") IN (SELECT "branch", "customer_no" FROM "freight"."consignments" WHERE "consignment" IN (SELECT "consignment" FROM "freight"."consignment_lines" WHERE "consignment" = $1 AND "line_no" = $2)) ORDER BY "branch", "customer_no" FOR SHARE;
    PERFORM FROM "freight"."regions" WHERE "region_code" IN (SELECT "region_code" FROM "freight"."customers" WHERE ("branch", "customer_no") IN (SELECT "branch", "customer_no" FROM "freight"."consignments" WHERE "consignment" IN (SELECT "consignment" FROM "freight"."consignment_lines" WHERE "consignment" = $1 AND "line_no" = $2))) ORDER BY "region_code" FOR SHARE;
    published := (SELECT row_to_json(one)::text FROM (SELECT $3 AS op, CAST("consignment" AS text) AS "consignment", "line_no" AS "line_no", "packed_at" AS "packed_at", "parcels" AS "parcels", CAST("goods_label" AS text) AS "goods_label", "is_hazardous" AS "is_hazardous", CAST("delivery" AS text) AS "delivery", CAST("company" AS text) AS "company", "price" AS "price" FROM "freight"."lines_priced_in" WHERE "consignment" = $1 AND "line_no" = $2) AS one);
    IF (published IS NULL) <> ($3 = 'd') THEN
        RAISE EXCEPTION 'lockstep_publish__lines_priced: freight.lines_priced_in has % row of this key, so op cannot be %',
            CASE WHEN published IS NULL THEN 'no' ELSE 'a' END, $3;
    END IF;
    IF published IS NULL THEN
        published := (SELECT row_to_json(one)::text FROM (SELECT 'd' AS op, CAST("consignment" AS text) AS "consignment", "line_no" AS "line_no" FROM (SELECT CAST($1 AS uuid) AS "consignment", CAST($2 AS smallint) AS "line_no") AS deleted) AS one);
    END IF;
    INSERT INTO "freight"."lines_outbox" (payload) VALUES (published);
    PERFORM pg_logical_emit_message(true, 'lockstep.message.lines_priced', published);
END;
$lockstep$;
REVOKE ALL ON FUNCTION "freight"."lockstep_publish__lines_priced"(uuid, smallint, text) FROM PUBLIC;
-- For each role of an application that publishes: GRANT EXECUTE ON FUNCTION "freight"."lockstep_publish__lines_priced"(uuid, smallint, text) TO …;
