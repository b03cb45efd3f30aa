CREATE TABLE IF NOT EXISTS ringway_location (
    domain varchar(255) NOT NULL,
    name varchar(255) NOT NULL,
    node varchar(64) NOT NULL,
    number integer NOT NULL,
    contact text NOT NULL,
    transport varchar(8) NOT NULL,
    received varchar(64) NOT NULL,
    path text NOT NULL,
    instance text,
    call_id text NOT NULL,
    cseq bigint NOT NULL,
    expires timestamp NOT NULL DEFAULT current_timestamp,
    updated timestamp(6) NOT NULL DEFAULT current_timestamp(6),
    PRIMARY KEY (domain, name, node, number)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
