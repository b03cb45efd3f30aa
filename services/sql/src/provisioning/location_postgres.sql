CREATE TABLE IF NOT EXISTS ringway_location (
    domain text NOT NULL,
    name text NOT NULL,
    node text NOT NULL,
    number integer NOT NULL,
    contact text NOT NULL,
    transport text NOT NULL,
    received text NOT NULL,
    path text NOT NULL,
    instance text,
    call_id text NOT NULL,
    cseq bigint NOT NULL,
    expires timestamptz NOT NULL,
    updated timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (domain, name, node, number)
);
