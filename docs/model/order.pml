/*
 * Two jobs of one order key, from their registrations to their ends, with carriers,
 * workers and a client. docs/model/check checks it. docs/model.md says
 * what it proves and what it does not.
 *
 * job.pml models what happens to a single job. This model has only what one job of a
 * key means for the other: turns, parking and calling. Each step is one script of the
 * Redis store, or one call of diskstore.
 */

#define JOBS 2
#define WORKERS 2
#define CAP 2           /* hints on the ready list */
#define MAX_ATTEMPTS 2
#ifndef FAULTS
#define FAULTS 1        /* crashes, pauses, lost hints: in all */
#endif
#ifndef COMMANDS
#define COMMANDS 1      /* of clients */
#endif
/* A step that must not block. It is equivalent to atomic, with which Spin reports
 * the parts that are never reached. */
#ifndef STEP
#define STEP d_step
#endif

/* The places of a job. */
#define ABSENT 0        /* not registered yet */
#define PARKED 1        /* in its bucket, not due until it is called */
#define WAITING 2       /* in its bucket */
#define READY 3         /* on the ready list, due again at the visibility deadline */
#define RUNNING 4       /* claimed, due again at the end of the lease */
#define ENDED 5
#define UNFINISHED(j) (place[j] != ABSENT && place[j] != ENDED)

/* The properties. ONLY selects one, to check that a mutant breaks it. */
mtype:property = {
	ONE_AT_A_TIME,    /* no request begins while one of the other job is in progress whose lease lasts */
	HEAD_HOLDS,       /* no job is claimed between the first claim of the other and its end or change */
	IN_ORDER,         /* no job is claimed while another that was never claimed has an earlier turn */
	HEAD_CALLED,      /* a key with unfinished jobs has a head, and the head is not parked */
	ENDS              /* all jobs end after the last fault and command */
};
#ifdef ONLY
#define MUST(hold, name) assert((hold) || name != ONLY)
#else
#define MUST(hold, name) assert(hold)
#endif

/* The mutants, and the property that each must break. */
mtype:mutant = {
	CLAIMED_BLINDLY,  /* ONE_AT_A_TIME: claim takes any job */
	RETRY_YIELDS,     /* HEAD_HOLDS: a job that waits for another attempt loses its stage */
	EXPIRY_YIELDS,    /* HEAD_HOLDS: a carried job loses its stage */
	TURN_IGNORED,     /* IN_ORDER: a new job never becomes the head while there is one */
	NEXT_UNCALLED,    /* ENDS: the end of the head calls nobody */
	MOVED_UNCALLED,   /* HEAD_CALLED: a head that is postponed calls nobody */
	CLAIM_LATE_SENDS  /* ONE_AT_A_TIME: a worker begins a request after its lease */
};
#ifndef MUTANT
#define MUTANT 0
#endif
#define BUT(name) (MUTANT == name)

/* The store. */
byte place[JOBS];
bool due[JOBS];                  /* its time has come */
bool begun[JOBS];                /* the stage: claimed, and neither ended nor changed since */
byte time[JOBS];                 /* the due time, by which the turn goes; the number of the job decides a tie */
byte token[JOBS];
byte attempts[JOBS];
byte head = JOBS;                /* JOBS: none */
chan ready = [CAP] of { byte };

byte faults = FAULTS;
byte commands = COMMANDS;

/* The truth, whatever the store believes. */
byte job[WORKERS] = JOBS;        /* whose claim the worker has */
byte has[WORKERS];               /* its token */
bool leased[WORKERS];            /* its lease lasts, by its own clock too */
bool sending[WORKERS];           /* its request is in progress */

#define OTHER(j) (1 - (j))
#define EARLIER(j) (time[j] < time[OTHER(j)] || time[j] == time[OTHER(j)] && j == 0)
#define STAGE(j) (begun[j] && !(BUT(RETRY_YIELDS) && place[j] == WAITING) && !(BUT(EXPIRY_YIELDS) && place[j] == READY))
#define BEFORE(j) (STAGE(j) && !STAGE(OTHER(j)) || STAGE(j) == STAGE(OTHER(j)) && EARLIER(j))

#define CALLED (head < JOBS -> UNFINISHED(head) && place[head] != PARKED : !UNFINISHED(0) && !UNFINISHED(1))

/* first makes the first unfinished job of the key its head. */
inline first() {
	head = (!UNFINISHED(0) && !UNFINISHED(1) -> JOBS :
		(UNFINISHED(0) && (!UNFINISHED(1) || BEFORE(0)) -> 0 : 1))
}

/* turn passes the turn on, and calls the head if it is parked. */
inline turn(uncalled) {
	first();
	if
	:: head < JOBS && place[head] == PARKED && !uncalled -> place[head] = WAITING; due[head] = false
	:: else
	fi;
	MUST(CALLED, HEAD_CALLED)
}

/* Time passes: jobs become due, and leases expire. The lease of a working worker expires
 * only by a fault, such as a pause. */
#define HELD(j) (job[0] == j && has[0] == token[j] || job[1] == j && has[1] == token[j])
#define AT_WORK(j) (place[j] == RUNNING && HELD(j))
#define WAITS(j) (UNFINISHED(j) && place[j] != PARKED && !due[j] && (!AT_WORK(j) || faults > 0))

inline pass(j) {
	faults = faults - AT_WORK(j);
	due[j] = true;
	leased[0] = leased[0] && job[0] != j;
	leased[1] = leased[1] && job[1] != j
}

proctype clock() {
end:	do
	:: STEP { WAITS(0) -> pass(0) }
	:: STEP { WAITS(1) -> pass(1) }
	od
}

/* Carrying reads no keys: a job that is not the head may be carried. */
#define MAY_CARRY(j) (UNFINISHED(j) && due[j] && len(ready) < CAP)

inline carry(j) {
	place[j] = READY;
	due[j] = false;
	ready ! j
}

proctype carrier() {
end:	do
	:: STEP { MAY_CARRY(0) -> carry(0) }
	:: STEP { MAY_CARRY(1) -> carry(1) }
	od
}

/* forget leaves a worker without a claim. */
inline forget() {
	job[me] = JOBS;
	has[me] = 0;
	leased[me] = false;
	sending[me] = false;
	hint = JOBS
}

inline claim() {
	if
	:: place[hint] != READY && !(UNFINISHED(hint) && due[hint]) -> forget()
	:: (place[hint] == READY || UNFINISHED(hint) && due[hint]) && (head == hint || BUT(CLAIMED_BLINDLY)) ->
		MUST(!begun[OTHER(hint)], HEAD_HOLDS);
		MUST(begun[hint] || !UNFINISHED(OTHER(hint)) || EARLIER(hint), IN_ORDER);
		place[hint] = RUNNING;
		due[hint] = false;
		begun[hint] = true;
		token[hint]++;
		job[me] = hint;
		has[me] = token[hint];
		leased[me] = true
	:: (place[hint] == READY || UNFINISHED(hint) && due[hint]) && head != hint && !BUT(CLAIMED_BLINDLY) ->
		place[hint] = PARKED;
		due[hint] = false;
		forget()
	fi
}

inline settle() {
	if
	:: place[job[me]] == RUNNING && token[job[me]] == has[me] ->
		attempts[job[me]]++;
		if
		:: attempts[job[me]] == MAX_ATTEMPTS || ok ->
			place[job[me]] = ENDED;
			begun[job[me]] = false;
			due[job[me]] = false;
			turn(BUT(NEXT_UNCALLED))
		:: else ->
			place[job[me]] = WAITING;
			due[job[me]] = false
		fi
	:: else /* stale */
	fi
}

proctype worker(byte me) {
	byte hint = JOBS;
	bool ok;

end:	atomic {
		ready ? hint;
		if
		:: STEP { claim() }
		:: faults > 0 -> faults--; hint = JOBS /* the hint is lost */
		fi;
		if
		:: job[me] == JOBS -> goto end
		:: else
		fi
	};
	do
	:: atomic { /* a request begins; the worker checks its own clock */
		!sending[me] && (leased[me] || BUT(CLAIM_LATE_SENDS)) ->
		MUST(!sending[1 - me] || !leased[1 - me] || job[1 - me] == job[me], ONE_AT_A_TIME);
		sending[me] = true
	}
	:: atomic {
		sending[me] ->
		if
		:: ok = true
		:: ok = false
		fi;
		STEP { settle() };
		ok = false;
		forget();
		goto end
	}
	:: atomic { !sending[me] && !leased[me] -> forget(); goto end } /* too late */
	:: atomic { faults > 0 -> faults--; forget(); goto end } /* a crash */
	od
}

/* A client registers both jobs, and may cancel a job that is not running or give it
 * another time. */
inline register(j) {
	place[j] = WAITING;
	due[j] = false;
	if
	:: BUT(TURN_IGNORED) && head < JOBS
	:: else -> first()
	fi;
	MUST(CALLED, HEAD_CALLED)
}

inline change(j) {
	if
	:: UNFINISHED(j) && place[j] != RUNNING ->
		if
		:: how == 0 -> place[j] = ENDED
		:: how == 1 -> time[j] = 0; place[j] = WAITING
		:: how == 2 -> time[j] = 2; place[j] = WAITING
		fi;
		due[j] = false;
		begun[j] = false;
		turn(BUT(MOVED_UNCALLED))
	:: else
	fi
}

proctype client() {
	byte j, how;

	do
	:: STEP { place[0] == ABSENT -> register(0) }
	:: STEP { place[1] == ABSENT -> register(1) }
	:: place[0] != ABSENT && place[1] != ABSENT -> break
	od;
end:	do
	:: atomic {
		commands > 0 ->
		commands--;
		select(j : 0 .. 1);
		select(how : 0 .. 2);
		STEP { change(j) };
		j = 0;
		how = 0
	}
	od
}

init {
	atomic {
		time[0] = 1;
		time[1] = 1;
		run clock();
		run carrier();
		run worker(0);
		run worker(1);
		run client()
	}
}

#ifdef LIVE
ltl ends { <> (place[0] == ENDED && place[1] == ENDED) }
#endif
