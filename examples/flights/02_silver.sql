-- Silver: departures that make sense, with names instead of codes.
CREATE OR REFRESH STREAMING TABLE silver_departures (
  CONSTRAINT known_origin EXPECT (origin IN ('EWR', 'JFK', 'LGA')) ON VIOLATION DROP ROW,
  CONSTRAINT has_scheduled_time EXPECT (scheduled IS NOT NULL) ON VIOLATION FAIL UPDATE,
  CONSTRAINT known_aircraft EXPECT (tailnum IS NOT NULL),
  CONSTRAINT delay_of_flown EXPECT (cancelled OR dep_delay IS NOT NULL)
)
COMMENT 'Departures with airline and destination names'
AS SELECT
  d.scheduled, d.reported, d.carrier, airline.name AS airline, d.flight, d.tailnum,
  d.origin, d.dest, airport.name AS dest_name, d.distance, d.dep_delay, d.arr_delay, d.cancelled
FROM STREAM bronze_departures AS d
LEFT JOIN airlines AS airline ON d.carrier = airline.carrier
LEFT JOIN airports AS airport ON d.dest = airport.faa;

CREATE TEMPORARY VIEW airlines AS
SELECT * FROM read_files('${data}/airlines.csv', format => 'csv', header => true, schema => 'carrier STRING, name STRING');

CREATE TEMPORARY VIEW airports AS
SELECT * FROM read_files('${data}/airports.csv', format => 'csv', header => true,
  schema => 'faa STRING, name STRING, lat DOUBLE, lon DOUBLE, alt INT, tz INT, dst STRING, tzone STRING');
