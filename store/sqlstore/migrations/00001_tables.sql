-- Names are compared byte by byte, as everywhere in duehook: COLLATE "C". Times are milliseconds since
-- 1970, 0 for none. "duehook." stands for the schema of the settings.

-- The jobs, unfinished and ended ones.
CREATE TABLE duehook.job (
	topic            text COLLATE "C" NOT NULL,
	id               text COLLATE "C" NOT NULL,
	uid              text COLLATE "C" NOT NULL,
	state            smallint NOT NULL,      -- job.State, never ready
	lane             uuid     NOT NULL,      -- see laneID
	bucket           smallint,               -- 0: in flight, 1: waits for its time, 2: behind its order key; NULL: ended
	wake             bigint   NOT NULL,      -- when an unfinished job next needs attention
	next_at          bigint   NOT NULL,
	created_at       bigint   NOT NULL,
	updated_at       bigint   NOT NULL,
	due_at           bigint   NOT NULL,
	expires_at       bigint   NOT NULL,
	ended_at         bigint   NOT NULL DEFAULT 0,
	token            bigint   NOT NULL DEFAULT 0,
	version          bigint   NOT NULL,
	counted          bigint   NOT NULL DEFAULT 0,
	timeout          bigint   NOT NULL,      -- of an attempt, in nanoseconds
	attempts         integer  NOT NULL DEFAULT 0,
	snoozes          integer  NOT NULL DEFAULT 0,
	expired_leases   integer  NOT NULL DEFAULT 0,
	count_keys       integer  NOT NULL DEFAULT 0, -- rows in counted
	cancel_requested boolean  NOT NULL DEFAULT false,
	fired            boolean  NOT NULL DEFAULT false,
	keeps_end        boolean  NOT NULL,      -- see job.Spec.KeepsEnd
	reason           text COLLATE "C" NOT NULL DEFAULT '',
	order_key        text COLLATE "C",       -- topic/order_key
	biz_key          text COLLATE "C",
	group_id         text COLLATE "C",       -- job.Indexes
	dead_group       text COLLATE "C",       -- of a dead letter: its name in package listing
	claim_at         bigint   NOT NULL DEFAULT 0,
	claim_prior      bigint   NOT NULL DEFAULT 0, -- when the lease that expired began
	claim_from       smallint NOT NULL DEFAULT 0, -- the state before the claim
	claim_by         text COLLATE "C" NOT NULL DEFAULT '',
	settled_by       bigint   NOT NULL DEFAULT 0, -- the fencing token of settled
	settled          bytea,                  -- the answer to the last settlement
	spec             bytea    NOT NULL,      -- store/encoding
	log              text[]   NOT NULL DEFAULT '{}', -- attempts as JSON, the oldest first
	PRIMARY KEY (topic, id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 50000, autovacuum_vacuum_cost_delay = 0);

-- Large values are stored once, beside the row, and not compressed: most bodies are small, and a change
-- of a job does not copy what lies beside it.
ALTER TABLE duehook.job ALTER COLUMN spec SET STORAGE EXTERNAL, ALTER COLUMN log SET STORAGE EXTERNAL;

CREATE INDEX job_bucket ON duehook.job (lane, bucket, wake, id) WHERE bucket IS NOT NULL;
CREATE INDEX job_uid ON duehook.job (uid);
CREATE INDEX job_ended ON duehook.job (topic, ended_at, id) WHERE state IN (4, 6, 7);
CREATE INDEX job_purge ON duehook.job (keeps_end, ended_at) WHERE state IN (4, 6, 7);
CREATE INDEX job_dead ON duehook.job (dead_group, ended_at, id) WHERE dead_group IS NOT NULL;
CREATE INDEX job_biz ON duehook.job (biz_key, topic, id) WHERE biz_key IS NOT NULL;
CREATE INDEX job_group ON duehook.job (group_id, topic, id) WHERE group_id IS NOT NULL;

-- Keys that were counted for the job with a uid.
CREATE TABLE duehook.counted (
	uid text COLLATE "C" NOT NULL,
	key text COLLATE "C" NOT NULL,
	PRIMARY KEY (uid, key)
);

-- The order keys with an unfinished job, or stopped by a dead letter, and the jobs behind their heads.
CREATE TABLE duehook.order_head (
	order_key text COLLATE "C" PRIMARY KEY,  -- topic/order_key
	id        text COLLATE "C" NOT NULL,     -- of the only job that may be delivered, or of the dead letter
	turn      bytea   NOT NULL,
	floor     bytea   NOT NULL,              -- no job behind the head has an earlier turn
	taken     boolean NOT NULL               -- the head was claimed, or is a dead letter
) WITH (fillfactor = 70);
CREATE TABLE duehook.order_queue (
	order_key text COLLATE "C" NOT NULL,
	turn      bytea NOT NULL,
	id        text COLLATE "C" NOT NULL,
	PRIMARY KEY (order_key, turn)
);

-- Figures as of the last fold, and when Take looks again. Only the holder of the take lock writes these five tables, so that a lane
-- and a topic have one row. While somebody holds a transaction open, their old versions stay. So rev grows with each version: the first one
-- by (lane, rev DESC) is the current one. Searches by time have lower bounds, before which there are only old versions.
CREATE TABLE duehook.lane (
	lane     uuid NOT NULL,
	rev      bigint NOT NULL DEFAULT 0,
	name     text COLLATE "C" NOT NULL,      -- job.Lane.String
	topic    text COLLATE "C" NOT NULL,
	letter   text COLLATE "C" NOT NULL,      -- of the name: the highest priority sorts first
	endpoint text COLLATE "C" NOT NULL,
	pulled   boolean NOT NULL,               -- a pull queue
	waiting  bigint  NOT NULL,
	retrying bigint  NOT NULL,
	running  bigint  NOT NULL,
	parked   bigint  NOT NULL,               -- of waiting and retrying: behind their order keys
	head     bigint,                         -- no job in the lane's bucket 1 is due earlier; NULL: none waits
	head_id  text COLLATE "C" NOT NULL,      -- of those due at head, none has a lower id
	held     bigint  NOT NULL DEFAULT 0,     -- the lane is put off until then; 0: it is not
	"full"   boolean NOT NULL DEFAULT false, -- until one of its jobs is no longer in flight, at the latest
	wake     bigint,                         -- when to look at bucket 1: at head, or when the lane is no longer put off
	lease    bigint,                         -- when to look at bucket 0: no lease ends earlier, unless it has ended
	PRIMARY KEY (lane, rev)
) WITH (fillfactor = 50);
CREATE INDEX lane_name ON duehook.lane (name);
CREATE INDEX lane_wake ON duehook.lane (topic, letter, wake) WHERE wake IS NOT NULL AND NOT pulled;
CREATE INDEX lane_lease ON duehook.lane (lease, rev DESC) WHERE lease IS NOT NULL;
CREATE INDEX lane_visit ON duehook.lane ((coalesce(least(wake, lease), 4000000000000)), name);
CREATE INDEX lane_held ON duehook.lane (head) WHERE held > 0;
CREATE INDEX lane_endpoint ON duehook.lane (endpoint, name);
CREATE TABLE duehook.topic (
	topic      text COLLATE "C" NOT NULL,
	rev        bigint NOT NULL DEFAULT 0,
	waiting    bigint NOT NULL DEFAULT 0,
	retrying   bigint NOT NULL DEFAULT 0,
	running    bigint NOT NULL DEFAULT 0,
	delivered  bigint NOT NULL DEFAULT 0,
	dead       bigint NOT NULL DEFAULT 0,
	cancelled  bigint NOT NULL DEFAULT 0,
	expired    bigint NOT NULL DEFAULT 0,
	parked     bigint NOT NULL DEFAULT 0,
	order_keys bigint NOT NULL DEFAULT 0,
	letters    text[] NOT NULL DEFAULT '{}',   -- of its lanes, sorted; some may be gone
	held       bigint NOT NULL DEFAULT 0,      -- the topic is put off until then; 0: it is not
	"full"     boolean NOT NULL DEFAULT false, -- until one of its jobs is no longer in flight, at the latest
	wake       bigint,                         -- when to look at its lanes but pull queues; NULL: nothing waits
	first      bigint NOT NULL DEFAULT 0,      -- none of its lanes has an earlier wake
	pace       double precision NOT NULL DEFAULT 0, -- when its rate allows the next job
	served     bigint NOT NULL DEFAULT 0,      -- when one of its jobs was claimed last: topics due at one time take turns
	-- Grows with its unfinished jobs, in steps of a sixteenth: most changes of the counts leave the index as it is.
	size       integer NOT NULL GENERATED ALWAYS AS (ceil(16 * ln(1 + greatest(0, waiting + retrying + running)::float8))::integer) STORED,
	ended      boolean NOT NULL GENERATED ALWAYS AS (delivered + cancelled + expired > 0) STORED,
	PRIMARY KEY (topic, rev)
) WITH (fillfactor = 50);
CREATE INDEX topic_wake ON duehook.topic (wake) WHERE wake IS NOT NULL;
CREATE INDEX topic_size ON duehook.topic (size) WHERE size > 0;
CREATE INDEX topic_ended ON duehook.topic (topic) WHERE ended;
-- The sums of all topics: one row, or none yet.
CREATE TABLE duehook.total (
	one        boolean PRIMARY KEY CHECK (one),
	at         bigint NOT NULL,                -- when a take last wrote when to look again: after the clock was set back, a later time
	wake       bigint NOT NULL DEFAULT 0,      -- no topic has an earlier wake
	lease      bigint NOT NULL DEFAULT 0,      -- no lane has an earlier lease
	waiting    bigint NOT NULL,
	retrying   bigint NOT NULL,
	running    bigint NOT NULL,
	delivered  bigint NOT NULL,
	dead       bigint NOT NULL,
	cancelled  bigint NOT NULL,
	expired    bigint NOT NULL,
	parked     bigint NOT NULL,
	order_keys bigint NOT NULL
) WITH (fillfactor = 10);
CREATE TABLE duehook.endpoint (
	endpoint        text COLLATE "C" PRIMARY KEY,
	waiting         bigint NOT NULL DEFAULT 0,
	retrying        bigint NOT NULL DEFAULT 0,
	running         bigint NOT NULL DEFAULT 0,
	open_until      bigint NOT NULL DEFAULT 0,
	half_open_until bigint NOT NULL DEFAULT 0,
	ramp_from       bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
CREATE INDEX endpoint_circuit ON duehook.endpoint (endpoint) WHERE open_until + half_open_until + ramp_from > 0;
CREATE TABLE duehook.dead_group (
	name text COLLATE "C" PRIMARY KEY,       -- see package listing
	dead bigint NOT NULL
);

-- What transactions added to the figures since.
CREATE TABLE duehook.delta (
	seq        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	lane       uuid,                         -- NULL: name is that of a group of dead letters
	name       text COLLATE "C" NOT NULL,
	waiting    integer NOT NULL,
	retrying   integer NOT NULL,
	running    integer NOT NULL,
	delivered  integer NOT NULL,
	dead       integer NOT NULL,
	cancelled  integer NOT NULL,
	expired    integer NOT NULL,
	parked     integer NOT NULL,
	order_keys integer NOT NULL,
	wake       bigint,                       -- the earliest of the jobs that were written to bucket 1
	lease      bigint                        -- the same of bucket 0
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_cost_delay = 0);

-- The limits of topics.
CREATE TABLE duehook.limits (
	topic  text COLLATE "C" PRIMARY KEY,
	limits text NOT NULL                     -- store.Limits as JSON
);

CREATE TABLE duehook.document (
	kind    text COLLATE "C" NOT NULL,
	name    text COLLATE "C" NOT NULL,
	data    bytea  NOT NULL,
	version bigint NOT NULL,
	PRIMARY KEY (kind, name)
);

-- Messages that are too large for NOTIFY.
CREATE TABLE duehook.message (
	id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	channel text COLLATE "C" NOT NULL,
	payload bytea  NOT NULL,
	at      bigint NOT NULL
);

CREATE TABLE duehook.meta (
	key   text COLLATE "C" PRIMARY KEY,
	value text NOT NULL
);

-- The lowest version of the schema that a node must know to work with this one.
INSERT INTO duehook.meta (key, value) VALUES ('readable_by', '1');
