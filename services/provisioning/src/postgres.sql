BEGIN;

SELECT pg_advisory_xact_lock(5060);

CREATE TABLE IF NOT EXISTS ringway_subscriber (
    domain text NOT NULL CHECK (domain = lower(domain)),
    name text NOT NULL,
    realm text NOT NULL,
    ha1_md5 text NOT NULL CHECK (length(ha1_md5) = 32),
    ha1_sha256 text NOT NULL CHECK (length(ha1_sha256) = 64),
    PRIMARY KEY (domain, name)
);

CREATE TABLE IF NOT EXISTS ringway_contact (
    domain text NOT NULL CHECK (domain = lower(domain)),
    name text NOT NULL,
    contact text NOT NULL,
    PRIMARY KEY (domain, name, contact)
);

CREATE TABLE IF NOT EXISTS ringway_forward (
    domain text NOT NULL CHECK (domain = lower(domain)),
    name text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('always', 'busy', 'no-answer', 'unregistered')),
    after_s integer,
    uri text NOT NULL,
    PRIMARY KEY (domain, name, kind)
);

CREATE TABLE IF NOT EXISTS ringway_change (
    seq bigserial PRIMARY KEY,
    domain text NOT NULL,
    name text NOT NULL,
    at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE IF NOT EXISTS ringway_meta (
    name text PRIMARY KEY,
    value text NOT NULL
);

INSERT INTO ringway_meta VALUES ('version', '1'), ('identity', gen_random_uuid()::text) ON CONFLICT DO NOTHING;

CREATE OR REPLACE FUNCTION ringway_note_change() RETURNS trigger LANGUAGE plpgsql AS $function$
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        INSERT INTO ringway_change (domain, name) VALUES ('', '');
    ELSE
        IF TG_OP <> 'INSERT' THEN
            INSERT INTO ringway_change (domain, name) VALUES (OLD.domain, OLD.name);
        END IF;
        IF TG_OP = 'INSERT' OR TG_OP = 'UPDATE' AND (NEW.domain, NEW.name) IS DISTINCT FROM (OLD.domain, OLD.name) THEN
            INSERT INTO ringway_change (domain, name) VALUES (NEW.domain, NEW.name);
        END IF;
    END IF;
    PERFORM pg_notify('ringway_change', '');
    RETURN NULL;
END
$function$;

CREATE OR REPLACE FUNCTION ringway_forget_forwards() RETURNS trigger LANGUAGE plpgsql AS $function$
BEGIN
    DELETE FROM ringway_forward f WHERE f.domain = OLD.domain AND f.name = OLD.name
        AND NOT EXISTS (SELECT 1 FROM ringway_subscriber s WHERE s.domain = f.domain AND s.name = f.name)
        AND NOT EXISTS (SELECT 1 FROM ringway_contact c WHERE c.domain = f.domain AND c.name = f.name);
    RETURN NULL;
END
$function$;

CREATE OR REPLACE TRIGGER ringway_note_change AFTER INSERT OR UPDATE OR DELETE ON ringway_subscriber
    FOR EACH ROW EXECUTE FUNCTION ringway_note_change();

CREATE OR REPLACE TRIGGER ringway_note_change AFTER INSERT OR UPDATE OR DELETE ON ringway_contact
    FOR EACH ROW EXECUTE FUNCTION ringway_note_change();

CREATE OR REPLACE TRIGGER ringway_note_change AFTER INSERT OR UPDATE OR DELETE ON ringway_forward
    FOR EACH ROW EXECUTE FUNCTION ringway_note_change();

CREATE OR REPLACE TRIGGER ringway_forget_forwards AFTER DELETE ON ringway_subscriber
    FOR EACH ROW EXECUTE FUNCTION ringway_forget_forwards();

CREATE OR REPLACE TRIGGER ringway_forget_forwards AFTER DELETE ON ringway_contact
    FOR EACH ROW EXECUTE FUNCTION ringway_forget_forwards();

CREATE OR REPLACE TRIGGER ringway_note_truncate AFTER TRUNCATE ON ringway_subscriber
    FOR EACH STATEMENT EXECUTE FUNCTION ringway_note_change();

CREATE OR REPLACE TRIGGER ringway_note_truncate AFTER TRUNCATE ON ringway_contact
    FOR EACH STATEMENT EXECUTE FUNCTION ringway_note_change();

CREATE OR REPLACE TRIGGER ringway_note_truncate AFTER TRUNCATE ON ringway_forward
    FOR EACH STATEMENT EXECUTE FUNCTION ringway_note_change();

COMMIT;
