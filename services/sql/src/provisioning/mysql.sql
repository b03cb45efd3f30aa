SELECT get_lock('ringway_tables', 10);

CREATE TABLE IF NOT EXISTS ringway_subscriber (
    domain varchar(255) NOT NULL CHECK (domain = lower(domain)),
    name varchar(255) NOT NULL,
    realm varchar(255) NOT NULL,
    ha1_md5 char(32) NOT NULL,
    ha1_sha256 char(64) NOT NULL,
    PRIMARY KEY (domain, name)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS ringway_contact (
    id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY,
    domain varchar(255) NOT NULL CHECK (domain = lower(domain)),
    name varchar(255) NOT NULL,
    contact varchar(1024) NOT NULL,
    KEY (domain, name)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS ringway_forward (
    domain varchar(255) NOT NULL CHECK (domain = lower(domain)),
    name varchar(255) NOT NULL,
    kind varchar(16) NOT NULL CHECK (kind IN ('always', 'busy', 'no-answer', 'unregistered')),
    after_s integer,
    uri varchar(255) NOT NULL,
    PRIMARY KEY (domain, name, kind)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TABLE IF NOT EXISTS ringway_change (
    seq bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY,
    domain varchar(255) NOT NULL,
    name varchar(255) NOT NULL,
    at timestamp NOT NULL DEFAULT current_timestamp
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

CREATE TRIGGER IF NOT EXISTS ringway_subscriber_insert AFTER INSERT ON ringway_subscriber
    FOR EACH ROW INSERT INTO ringway_change (domain, name) VALUES (NEW.domain, NEW.name);

CREATE TRIGGER IF NOT EXISTS ringway_subscriber_update AFTER UPDATE ON ringway_subscriber
    FOR EACH ROW INSERT INTO ringway_change (domain, name) VALUES (OLD.domain, OLD.name), (NEW.domain, NEW.name);

CREATE TRIGGER IF NOT EXISTS ringway_subscriber_delete AFTER DELETE ON ringway_subscriber
    FOR EACH ROW BEGIN
        INSERT INTO ringway_change (domain, name) VALUES (OLD.domain, OLD.name);
        DELETE FROM ringway_forward WHERE domain = OLD.domain AND name = OLD.name
            AND NOT EXISTS (SELECT 1 FROM ringway_subscriber s WHERE s.domain = OLD.domain AND s.name = OLD.name)
            AND NOT EXISTS (SELECT 1 FROM ringway_contact c WHERE c.domain = OLD.domain AND c.name = OLD.name);
    END;

CREATE TRIGGER IF NOT EXISTS ringway_contact_insert AFTER INSERT ON ringway_contact
    FOR EACH ROW INSERT INTO ringway_change (domain, name) VALUES (NEW.domain, NEW.name);

CREATE TRIGGER IF NOT EXISTS ringway_contact_update AFTER UPDATE ON ringway_contact
    FOR EACH ROW INSERT INTO ringway_change (domain, name) VALUES (OLD.domain, OLD.name), (NEW.domain, NEW.name);

CREATE TRIGGER IF NOT EXISTS ringway_contact_delete AFTER DELETE ON ringway_contact
    FOR EACH ROW BEGIN
        INSERT INTO ringway_change (domain, name) VALUES (OLD.domain, OLD.name);
        DELETE FROM ringway_forward WHERE domain = OLD.domain AND name = OLD.name
            AND NOT EXISTS (SELECT 1 FROM ringway_subscriber s WHERE s.domain = OLD.domain AND s.name = OLD.name)
            AND NOT EXISTS (SELECT 1 FROM ringway_contact c WHERE c.domain = OLD.domain AND c.name = OLD.name);
    END;

CREATE TRIGGER IF NOT EXISTS ringway_forward_insert AFTER INSERT ON ringway_forward
    FOR EACH ROW INSERT INTO ringway_change (domain, name) VALUES (NEW.domain, NEW.name);

CREATE TRIGGER IF NOT EXISTS ringway_forward_update AFTER UPDATE ON ringway_forward
    FOR EACH ROW INSERT INTO ringway_change (domain, name) VALUES (OLD.domain, OLD.name), (NEW.domain, NEW.name);

CREATE TRIGGER IF NOT EXISTS ringway_forward_delete AFTER DELETE ON ringway_forward
    FOR EACH ROW INSERT INTO ringway_change (domain, name) VALUES (OLD.domain, OLD.name);

CREATE TABLE IF NOT EXISTS ringway_meta (
    name varchar(32) NOT NULL PRIMARY KEY,
    value varchar(255) NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

INSERT IGNORE INTO ringway_meta VALUES ('version', '1'), ('identity', uuid());

DO release_lock('ringway_tables');
