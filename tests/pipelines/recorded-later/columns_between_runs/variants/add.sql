CREATE STREAMING TABLE s AS SELECT boat, riders, pier FROM STREAM crossings;
CREATE MATERIALIZED VIEW m AS SELECT pier, boat, riders FROM crossings;