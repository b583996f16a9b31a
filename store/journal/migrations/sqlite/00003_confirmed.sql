-- +goose Up

-- 0 until the times that the store gave to a registration are written: it may
-- not have got there.
ALTER TABLE message ADD COLUMN confirmed INTEGER NOT NULL DEFAULT 1;
