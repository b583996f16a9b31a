/*
 * One job, from its registration to its end, with everything that can touch it
 * concurrently. docs/model/check checks it. docs/model.md says
 * what it proves and what it does not.
 *
 * A part with a name such as claim.lua is that script of store/redisstore/lua.
 * Redis runs scripts atomically. Between two scripts anything can happen, so Go
 * code is modelled call by call.
 *
 * The model leaves out what only affects timing: durations, circuits, limits,
 * other jobs and the carriers' lock. A late copy of a repeated call is covered
 * by a slow caller that repeats.
 */

/* Sizes. Bounds are small here: two attempts for ten, and two expired leases for
 * ten, the first of which makes a suspect. */
#define WORKERS 2
#define CLIENTS 2
#define LANES 2
#define CAP 2           /* hints on the ready list */
#define MAX_ATTEMPTS 2
#define SUSPECT_AFTER 1
#define MAX_EXPIRED_LEASES 2
#ifndef FAULTS
#define FAULTS 1        /* crashes, pauses, lost hints, lost replies, releases, snoozes: in all */
#endif
#ifndef COMMANDS
#define COMMANDS 1      /* of clients */
#endif
/* A step that must not block. It is equivalent to atomic, with which Spin reports
 * the parts that are never reached. */
#ifndef STEP
#define STEP d_step
#endif

/* The states, as in package job. */
#define WAITING 0
#define RETRYING 1
#define READY 2
#define RUNNING 3
#define DELIVERED 4
#define DEAD 5
#define CANCELLED 6
#define EXPIRED 7
#define NONE 8          /* no state */
#define FINAL(state) ((state) >= DELIVERED)
#define PENDING(attempts) ((attempts) > 0 -> RETRYING : WAITING)

/* The events, as in package job. Those of clients stand for their commands too. */
#define CARRY 0
#define CLAIM 1
#define DELIVER 2
#define FAIL 3
#define GIVE_UP 4
#define EXPIRE 5
#define RELEASE 6
#define CANCEL 7
#define RESCHEDULE 8    /* any change: PATCH, run now, a retry brought forward */
#define REPLAY 9
#define DISCARD 10
#define REGISTER 11     /* not an event of the job: another job replaces it */
#define FINISH 12

/* MAY_MOVE(from, event, to): the table of docs/lifecycle.md, which docs/model/check
 * writes into this file. */
#include "moves.h"

/* The properties. ONLY selects one, to check that a mutant breaks it. */
mtype:property = {
	KEPT,             /* a job is unfinished exactly while it is in a bucket: its lane's, which carriers look at */
	NO_STALE_WRITE,   /* only the latest claim settles, once, and while the job is its own */
	FINAL_STAYS,      /* only a replay, a discard or a registration changes an ended job */
	NO_LOST_CHANGE,   /* a change replaces the record from which it was computed */
	EXCLUSIVE,        /* no request begins while another is in progress whose lease lasts */
	CANCEL_HOLDS,     /* no request begins on a claim from before a completed cancel or change, nor on
	                     a claim from after a cancel that met an attempt in flight */
	CANCEL_ENDS,      /* a cancel that met an attempt in flight ends the job when the attempt is settled */
	CHARGED_ONCE,     /* attempts counts the requests that were made and settled */
	SAME_ANSWER,      /* a claim that is repeated after a lost reply returns the job again */
	EXPIRED_ALONE,    /* a job is given up only after leases in which a worker sent it alone */
	BY_THE_TABLE,     /* every change of state is one of the table */
	ENDS              /* an unfinished job ends after the last fault and command */
};
#ifdef ONLY
#define MUST(hold, name) assert((hold) || name != ONLY)
#else
#define MUST(hold, name) assert(hold)
#endif

/* The mutants, and the property that each must break. */
mtype:mutant = {
	NO_TOKEN,         /* NO_STALE_WRITE: settle does not compare tokens */
	NO_STATE_CHECK,   /* NO_STALE_WRITE: settle does not check that the job is running */
	TOKEN_RESTARTS,   /* NO_STALE_WRITE: a job registered in an ended one's place begins with token 0 */
	TOKEN_TIMELESS,   /* NO_STALE_WRITE: a token may be less than the time of its claim */
	REMOVED_TO_CARRY, /* ENDS: carry takes the job out of its bucket (ZREM and RPUSH) */
	NO_VISIBILITY,    /* ENDS: a carried job has no visibility deadline */
	EXPIRY_UNSEEN,    /* ENDS: carry does not look for expired leases */
	CARRIED_BLINDLY,  /* EXCLUSIVE: the script of carry does not check the entry again */
	LEASE_IGNORED,    /* EXCLUSIVE: claim gives out leased jobs */
	NONCE_FORGOTTEN,  /* SAME_ANSWER: claim does not recognize its own nonce */
	CHARGED_AT_CLAIM, /* CHARGED_ONCE: claim counts the attempt */
	EXPIRY_UNSENT,    /* EXPIRED_ALONE: claim counts the expired leases of suspects */
	CHARGE_KEPT,      /* EXPIRED_ALONE: a release keeps the count that was raised before the request */
	CANCEL_IN_FLIGHT, /* CANCEL_HOLDS: cancel ends a running job */
	CANCEL_UNSEEN,    /* CANCEL_HOLDS: a worker does not check for a noted cancel */
	CANCEL_DROPPED,   /* CANCEL_ENDS: settle does not check for a noted cancel */
	CHANGE_IN_FLIGHT, /* CANCEL_HOLDS: a change takes a running job from its worker */
	STARTED_LATE,     /* CANCEL_HOLDS: a worker begins a request after its lease */
	NO_VERSION,       /* NO_LOST_CHANGE: update does not compare versions */
	NO_UID,           /* NO_LOST_CHANGE: update does not compare uids */
	ENDED_CHANGED,    /* FINAL_STAYS: a change does not check that the job has not ended */
	REPLAYED_EARLY,   /* BY_THE_TABLE: a replay does not check that the job has ended */
	ENTRY_LEFT,       /* KEPT: update leaves the entry in the old lane's bucket */
	LANE_UNLISTED     /* KEPT: update does not have carriers look at the new lane */
};
#ifndef MUTANT
#define MUTANT 0
#endif
#define BUT(name) (MUTANT == name)

/* The store. */
typedef Record {
	bool there;
	byte uid;
	byte state;
	bool cancel;
	byte attempts;
	byte expired_leases;
	byte token;
	byte version;
	byte nonce;
	byte mark;
	byte lane
};
Record rec;
byte entry[LANES] = NONE;        /* a bucket's entry: its state... */
bool due[LANES];                 /* ...and whether its time has come */
bool listed[LANES];              /* whether carriers look at the lane */
chan ready = [CAP] of { byte };  /* hints, each a lane */
byte now;                        /* the time, as far as tokens know it */

/* Nonces of claims and marks of updates: 1 + the caller's number, while it may
 * repeat the call. */
#define BLANK 0
#define EARLIER 8                /* of a call that is over */
#define SETTLED 9

byte faults = FAULTS;
byte commands = COMMANDS;
byte uids = 1;                   /* registrations so far */

/* The truth, whatever the store believes. */
byte holder;                     /* 1 + the worker of the latest claim, while the job is its own */
bool working[WORKERS];           /* it has a claim and is alive */
bool leased[WORKERS];            /* the lease of its claim lasts, by its own clock too */
bool sending[WORKERS];           /* its request is in progress */
bool barred[WORKERS] = true;     /* it must not begin a request */
bool alone;                      /* the worker of the latest claim raised the count, to send the job alone */
byte fell;                       /* expired leases in a row of such claims */
bool noted;                      /* a cancel met an attempt in flight */
byte charged;                    /* requests made and settled */
bool outrun[CLIENTS] = true;     /* the record changed since the client read it */

#define UNFINISHED (rec.there && !FINAL(rec.state))
#define IN(l) (entry[l] != NONE)

/* A bucket without its only entry is empty, and its lane is dropped. */
#define PLACE(l, s) entry[l] = s; due[l] = false; listed[l] = true
#define UNPLACE(l) entry[l] = NONE; due[l] = false; listed[l] = false

inline audit() {
	MUST((UNFINISHED -> IN(rec.lane) && listed[rec.lane] && !IN(1 - rec.lane) : !IN(0) && !IN(1)), KEPT);
	MUST(!rec.there || rec.attempts == charged, CHARGED_ONCE)
}

inline wrote() {
	outrun[0] = true;
	outrun[1] = true;
	audit()
}

/* Time passes: jobs become due, and leases expire. The lease of a working worker
 * expires only by a fault, such as a pause. */
#define AT_WORK(l) (entry[l] == RUNNING && holder != 0 && working[holder - 1])
#define WAITS(l) (IN(l) && !due[l] && !(BUT(NO_VISIBILITY) && entry[l] == READY) && (!AT_WORK(l) || faults > 0))

inline pass(l) {
	faults = faults - AT_WORK(l);
	due[l] = true;
	if
	:: entry[l] == RUNNING && holder != 0 -> leased[holder - 1] = false
	:: else
	fi
}

proctype clock() {
end:	do
	:: STEP { WAITS(0) -> pass(0) }
	:: STEP { WAITS(1) -> pass(1) }
	od
}

/* Carriers keep no state between scripts: earlier reads only select lanes, and the
 * script checks again. So one carrier that can run at any time stands for any
 * number, with or without a lock. */
#define DUE(l) (listed[l] && due[l] && !(BUT(EXPIRY_UNSEEN) && entry[l] == RUNNING))
#define ROOM (len(ready) < CAP)
#define MAY_CARRY(l) ((DUE(l) || BUT(CARRIED_BLINDLY) && looked == l && IN(l)) && ROOM)

inline carry(l) { /* carry.lua */
	MUST(MAY_MOVE(entry[l], CARRY, READY), BY_THE_TABLE);
	looked = NONE;
	PLACE(l, READY);
	ready ! l;
	if
	:: BUT(REMOVED_TO_CARRY) -> UNPLACE(l)
	:: else
	fi;
	audit()
}

proctype carrier() {
	byte looked = NONE;

end:	do
	:: STEP { MAY_CARRY(0) -> carry(0) }
	:: STEP { MAY_CARRY(1) -> carry(1) }
	:: BUT(CARRIED_BLINDLY) && DUE(0) -> looked = 0
	od
}

/* Housekeeping forgets ended jobs; with a retention of 0, settle.lua and change.lua
 * do so at once. Time passes meanwhile, so later tokens are higher than those of
 * the job. */
proctype housekeeper() {
end:	do
	:: STEP { /* change.lua */
		rec.there && FINAL(rec.state) && rec.state != DEAD ->
		now = (rec.token >= now -> rec.token + 1 : now);
		rec.there = false;
		rec.uid = 0;
		rec.state = 0;
		rec.cancel = false;
		rec.attempts = 0;
		rec.expired_leases = 0;
		rec.token = 0;
		rec.version = 0;
		rec.nonce = BLANK;
		rec.mark = BLANK;
		rec.lane = 0;
		fell = 0;
		noted = false;
		charged = 0;
		wrote()
	}
	od
}

#define FAULT faults > 0 -> faults--

#define LEASED(l) (entry[l] == RUNNING && !due[l])
#define KNOWN (rec.nonce == me + 1 && !BUT(NONCE_FORGOTTEN))
#define CARRIED(l) (entry[l] == READY || BUT(REMOVED_TO_CARRY) && UNFINISHED && entry[l] == NONE)

inline claim() { /* claim.lua */
	if
	:: rec.there && LEASED(lane) && KNOWN -> got = true
	:: rec.there && !(LEASED(lane) && KNOWN) && (CARRIED(lane) || due[lane] || BUT(LEASE_IGNORED) && LEASED(lane)) ->
		MUST(MAY_MOVE(entry[lane], CLAIM, RUNNING), BY_THE_TABLE);
		overdue = (rec.nonce == me + 1 -> overdue : rec.state == RUNNING);
		fell = fell + (rec.state == RUNNING && alone);
		alone = false;
		rec.expired_leases = rec.expired_leases +
			(rec.state == RUNNING && rec.nonce != me + 1 && (rec.expired_leases < SUSPECT_AFTER || BUT(EXPIRY_UNSENT)));
		rec.attempts = rec.attempts + BUT(CHARGED_AT_CLAIM);
		rec.token = (rec.token + 1 < now && !BUT(TOKEN_TIMELESS) -> now : rec.token + 1);
		rec.state = RUNNING;
		rec.nonce = me + 1;
		rec.version++;
		PLACE(lane, RUNNING);
		holder = me + 1;
		working[me] = true;
		leased[me] = true;
		barred[me] = noted;
		got = true;
		wrote()
	:: else -> got = false
	fi;
	MUST(got || holder != me + 1 || !leased[me], SAME_ANSWER);
	if
	:: got ->
		token = rec.token;
		attempts = rec.attempts;
		expired_leases = rec.expired_leases;
		cancel = rec.cancel && !BUT(CANCEL_UNSEEN)
	:: else
	fi
}

/* The event of a settlement. */
#define EVENT(to) (to == DELIVERED -> DELIVER : (to == DEAD -> GIVE_UP : (to == EXPIRED -> EXPIRE : \
	(to == CANCELLED -> CANCEL : (made -> FAIL : RELEASE)))))

inline settle() { /* settle.lua, or successors.go and change.lua */
	if
	:: rec.there && (rec.token == token || BUT(NO_TOKEN)) && (rec.state == RUNNING || BUT(NO_STATE_CHECK)) ->
		MUST(holder == me + 1, NO_STALE_WRITE);
		MUST(!FINAL(rec.state), FINAL_STAYS);
		to = (rec.cancel && to != DELIVERED && !BUT(CANCEL_DROPPED) -> CANCELLED : to);
		MUST(!noted || FINAL(to), CANCEL_ENDS);
		MUST(MAY_MOVE(RUNNING, EVENT(to), to), BY_THE_TABLE);
		MUST(to != DEAD || made || fell >= MAX_EXPIRED_LEASES - SUSPECT_AFTER, EXPIRED_ALONE);
		rec.state = to;
		rec.attempts = attempts;
		rec.expired_leases = expired_leases;
		alone = false;
		fell = (expired_leases == 0 -> 0 : fell);
		rec.nonce = SETTLED;
		rec.version++;
		if
		:: FINAL(to) -> UNPLACE(lane)
		:: else -> PLACE(lane, to)
		fi;
		holder = 0;
		charged = charged + made;
		wrote()
	:: else /* stale, settled before, or missing */
	fi
}

/* The result of a claim, as job.Settle computes it. */
inline outcome(state, used, leases) {
	to = state;
	made = used;
	attempts = attempts + used;
	expired_leases = leases;
	sending[me] = false
}
#define RELEASED outcome(PENDING(attempts), false, expired_leases + (sure && BUT(CHARGE_KEPT)))

inline charge() { /* Store.Update: job.ChargeExpiredLease */
	if
	:: rec.there && rec.token == token && rec.state == RUNNING && !rec.cancel ->
		rec.expired_leases++;
		rec.version++;
		sure = true;
		alone = true;
		wrote()
	:: else -> sure = false
	fi
}

inline forget_claim() {
	working[me] = false;
	leased[me] = false;
	sending[me] = false;
	barred[me] = true;
	lane = 0; token = 0; attempts = 0; expired_leases = 0;
	got = false; cancel = false; made = false; overdue = false; sure = false;
	to = NONE
}

/* A worker of a dispatcher. After a crash a new one starts, without knowledge. */
#define GOES_AHEAD (!cancel && expired_leases < MAX_EXPIRED_LEASES) /* job.Before */
#define SUSPECT (expired_leases >= SUSPECT_AFTER)

proctype worker(byte me) {
	byte lane, token, attempts, expired_leases;
	bool got, cancel, made, overdue, sure;
	byte to = NONE;

end:	atomic {
		ready ? lane;
		rec.nonce = (rec.nonce == me + 1 -> EARLIER : rec.nonce); /* a new call has a new nonce */
		if
		:: true
		:: FAULT; forget_claim(); goto end /* the hint is lost, with a connection or a process */
		fi
	};
	do
	:: atomic {
		STEP { claim() };
		if
		:: got -> break
		:: !got -> forget_claim(); goto end
		:: FAULT /* the reply is lost */
		:: FAULT; forget_claim(); goto end /* a crash */
		fi
	}
	od;
	/* The outcome is chosen when it is written. Nothing depends on it before. */
	do
	:: atomic { /* a request begins; the worker checks its own clock */
		to == NONE && !sending[me] && GOES_AHEAD && (!SUSPECT || sure) && (leased[me] || BUT(STARTED_LATE)) ->
		MUST(!barred[me], CANCEL_HOLDS);
		MUST(!sending[1 - me] || !leased[1 - me], EXCLUSIVE);
		sending[me] = true
	}
	:: atomic { /* the count of a suspect is raised before */
		to == NONE && !sending[me] && GOES_AHEAD && SUSPECT && !overdue && !sure && leased[me] ->
		STEP { charge() };
		if
		:: sure
		:: !sure -> RELEASED
		:: FAULT; RELEASED /* the reply is lost */
		fi
	}
	:: atomic {
		if
		:: to != NONE /* again: the reply was lost */
		:: to == NONE && sending[me] ->
			if
			:: outcome(DELIVERED, true, 0)
			:: outcome((attempts + 1 < MAX_ATTEMPTS -> RETRYING : DEAD), true, 0)
			:: outcome(DEAD, true, 0) /* the receiver refuses */
			:: FAULT; outcome(PENDING(attempts), false, 0) /* snoozed */
			:: FAULT; RELEASED /* cut off when the node stops */
			fi
		:: to == NONE && !sending[me] ->
			if
			:: cancel -> outcome(CANCELLED, false, 0)
			:: !cancel && expired_leases >= MAX_EXPIRED_LEASES -> outcome(DEAD, false, expired_leases)
			:: GOES_AHEAD -> outcome(EXPIRED, false, 0)
			:: GOES_AHEAD && SUSPECT && overdue -> RELEASED /* into quarantine */
			:: GOES_AHEAD && !leased[me] -> RELEASED /* too late */
			:: GOES_AHEAD && FAULT; RELEASED /* the circuit is open, or the node stops */
			fi
		fi;
		STEP { settle() };
		if
		:: forget_claim(); goto end
		:: FAULT /* the reply is lost */
		fi
	}
	:: atomic { FAULT; forget_claim(); goto end } /* a crash */
	od
}

inline read() { /* read.lua */
	rec.mark = (rec.mark == me + 1 -> EARLIER : rec.mark); /* a new update has a new mark */
	next.there = rec.there;
	next.uid = rec.uid;
	next.state = rec.state;
	next.cancel = rec.cancel;
	next.attempts = rec.attempts;
	next.expired_leases = rec.expired_leases;
	next.token = rec.token;
	next.version = rec.version;
	next.nonce = rec.nonce;
	next.mark = rec.mark;
	next.lane = rec.lane;
	was = rec.there;
	uid = rec.uid;
	version = rec.version;
	shown = rec.state;
	lane = rec.lane;
	outrun[me] = false
}

#define REPEATED (rec.there && rec.uid == next.uid && rec.version == next.version && rec.mark == next.mark)
/* The job keeps its state: a cancel is only noted. */
#define STATE (!FINAL(rec.state) && entry[rec.lane] == READY -> READY : rec.state)
#define NOTED (command == CANCEL && rec.state == RUNNING && next.state == RUNNING)
#define COMPARED (rec.there == was && (rec.uid == uid || BUT(NO_UID)) && (rec.version == version || BUT(NO_VERSION)))

inline put() { /* change.lua; register.lua where nothing is */
	if
	:: REPEATED -> done = true
	:: !REPEATED && COMPARED ->
		done = true;
		MUST(!was || !outrun[me], NO_LOST_CHANGE);
		MUST(!was || !FINAL(rec.state) || command == REPLAY || command == DISCARD || command == REGISTER, FINAL_STAYS);
		MUST(command == REGISTER || NOTED || MAY_MOVE(STATE, command, next.state), BY_THE_TABLE);
		rec.there = next.there;
		rec.uid = next.uid;
		rec.state = next.state;
		rec.cancel = next.cancel;
		rec.attempts = next.attempts;
		rec.expired_leases = next.expired_leases;
		rec.token = next.token;
		rec.version = next.version;
		rec.nonce = next.nonce;
		rec.mark = next.mark;
		rec.lane = next.lane;
		if
		:: rec.state == RUNNING -> /* a cancel is noted: the entry stays */
			noted = true;
			barred[0] = barred[0] || holder != 1;
			barred[1] = barred[1] || holder != 2
		:: else ->
			if
			:: was && !(BUT(ENTRY_LEFT) && lane != rec.lane) -> UNPLACE(lane)
			:: else
			fi;
			if
			:: !FINAL(rec.state) -> PLACE(rec.lane, rec.state); listed[rec.lane] = !BUT(LANE_UNLISTED)
			:: else
			fi;
			fell = (rec.expired_leases == 0 -> 0 : fell + alone); /* carried again: its lease has expired */
			alone = false;
			holder = 0;
			barred[0] = true;
			barred[1] = true;
			noted = noted && command != REPLAY && command != REGISTER;
			charged = (command == REPLAY || command == REGISTER -> 0 : charged)
		fi;
		wrote()
	:: else -> done = false
	fi
}

#define OPEN (was && !FINAL(shown))
#define ENDED (was && FINAL(shown))

inline decide() { /* the methods of job.Job, and Registration.Against */
	next.mark = me + 1;
	next.version++;
	if
	:: command == CANCEL && OPEN ->
		next.cancel = next.cancel || shown == RUNNING;
		next.state = (shown == RUNNING && !BUT(CANCEL_IN_FLIGHT) -> RUNNING : CANCELLED)
	:: command == RESCHEDULE && (OPEN && shown != RUNNING || OPEN && BUT(CHANGE_IN_FLIGHT) || ENDED && BUT(ENDED_CHANGED)) ->
		next.state = PENDING(next.attempts);
		if
		:: next.lane = 0
		:: next.lane = 1 /* another URL */
		fi
	:: command == FINISH && OPEN && shown != RUNNING ->
		next.state = DELIVERED
	:: command == REPLAY && (ENDED || OPEN && BUT(REPLAYED_EARLY)) ->
		next.state = WAITING;
		next.cancel = false;
		next.attempts = 0;
		next.expired_leases = 0
	:: command == DISCARD && ENDED && shown == DEAD ->
		next.state = CANCELLED
	:: command == REGISTER && (!was || shown != RUNNING) ->
		uids++;
		next.there = true;
		next.uid = uids;
		next.state = WAITING;
		next.cancel = false;
		next.attempts = 0;
		next.expired_leases = 0;
		next.token = (BUT(TOKEN_RESTARTS) -> 0 : next.token);
		next.version = 1;
		next.nonce = BLANK
	:: else -> forget_command(); goto end /* refused */
	fi
}

inline forget_command() {
	outrun[me] = true;
	command = NONE; uid = 0; version = 0; shown = 0; lane = 0;
	was = false; done = false;
	next.there = false; next.uid = 0; next.state = 0; next.cancel = false;
	next.attempts = 0; next.expired_leases = 0; next.token = 0; next.version = 0;
	next.nonce = BLANK; next.mark = BLANK; next.lane = 0
}

/* A client's command: Store.Update and Store.Register. A dispatcher that brings
 * retries forward is a client too. */
proctype client(byte me) {
	byte command = NONE, uid, version, shown, lane;
	bool was, done;
	Record next;

end:	atomic { commands > 0 -> commands-- };
	do
	:: STEP { read() };
		STEP { /* ZSCORE: only the bucket knows whether a job was carried */
			shown = (OPEN && entry[lane] == READY -> READY : shown)
		};
		/* The command is also chosen when it is written. */
		do
		:: atomic {
			if
			:: command != NONE /* again */
			:: command == NONE -> command = CANCEL
			:: command == NONE -> command = RESCHEDULE
			:: command == NONE -> command = FINISH
			:: command == NONE -> command = REPLAY
			:: command == NONE -> command = DISCARD
			:: command == NONE -> command = REGISTER
			:: command == NONE -> forget_command(); goto end /* nothing */
			fi;
			if
			:: next.mark == me + 1 /* again: the reply was lost */
			:: else -> decide()
			fi;
			STEP { put() };
			if
			:: done -> forget_command(); goto end
			:: !done -> break /* another was faster */
			:: FAULT /* the reply is lost */
			fi
		}
		od
	od
}

init {
	atomic {
		rec.there = true;
		rec.uid = uids;
		rec.version = 1;
		PLACE(0, WAITING);
		run clock();
		run housekeeper();
		run carrier();
		run carrier();
		run worker(0);
		run worker(1);
		run client(0);
#if COMMANDS > 1
		run client(1)
#endif
	}
}

#ifdef LIVE
ltl ends { [] (UNFINISHED -> <> !UNFINISHED) }
#endif
