-- The inbox of duehook: a row is a job to register. An application writes request, and perhaps key; duehook the columns of
-- its own, from error on.
CREATE TABLE duehook_inbox (
    id         bigint       NOT NULL AUTO_INCREMENT PRIMARY KEY,         -- rows of a transaction are read in this order
    `key`      char(36)     CHARACTER SET ascii NOT NULL DEFAULT (uuid()), -- makes the job's uid; a row with an earlier key is that job again
    request    mediumtext   NOT NULL,                                    -- the JSON of POST /v1/jobs
    created_at timestamp(3) NOT NULL DEFAULT current_timestamp(3),       -- the delay counts from here
    error      text         NULL,                                        -- why duehook refused the row
    failed_at  timestamp(3) NULL DEFAULT NULL,                           -- when it did
    waits_for  varchar(300) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL, -- the full topic, or the job in flight, for which the row waits
    -- duehook reads through this, however many rows have failed or wait.
    KEY duehook_inbox_state (waits_for, failed_at, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;
