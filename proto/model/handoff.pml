/* The handoff of one session, as SPEC.md section 1 states it, for the model checker Spin.
 *
 * A twin of the program that was made from the specification alone: it shares no line and no idea with the code, so a
 * rule that both keep is a rule that was understood twice. README.md says how to run it and what it found.
 *
 * What it holds
 *   N devices, H attempts, T turns (the first is there from the beginning), G generations (1: nobody seizes), R last
 *   rounds in an attempt. The network is a set: what was once sent may arrive at any later moment, at any device, any
 *   number of times, or never. So loss, doubling, reordering and misdelivery need no steps of their own. A device may
 *   crash between any two steps; a record that was written and not flushed is then there or not there, as the disk
 *   pleases. Attempts end by cancel, refusal, withdrawal and time, always and everywhere. Stages get lost.
 *
 * How a head is written
 *   A turn log is the set of its turns, a byte with a bit for each: turns are numbered in the order of their commits, so
 *   inside one generation one log is a prefix of the other exactly if its set is a subset.
 *
 * What is asked
 *   I1 to I5, I7, I8 and three rules as assertions, I6 as a formula of temporal logic (with -DLIVE). The names that an
 *   assertion prints are in the list "broken" below. Planted faults: -DMUTANT=1 to 12, those that must be found, and
 *   the further ones of the list "planted" below.
 */

#ifndef N
#define N 2
#endif
#ifndef H
#define H 2
#endif
#ifndef T
#define T 2
#endif
#ifndef G
#define G 1
#endif
#ifndef R
#define R 1
#endif
#ifndef REACH
#define REACH 0
#endif
#ifndef MUTANT
#define MUTANT 0
#endif

/* planted */
#define ACTS_AT_COMMIT       (MUTANT == 1)   /* the destination acts at its own commit */
#define SENDS_BEFORE_FSYNC   (MUTANT == 2)   /* the release leaves before it is durable */
#define ACTIVE_NOT_SYNCED    (MUTANT == 3)   /* the activation is not made durable */
#define ACK_ANY_HEAD         (MUTANT == 4)   /* the acknowledgement is not bound to the head */
#define TURN_UNSEEN          (MUTANT == 5)   /* a turn that was committed after the capture is not looked for */
#define NO_TOKEN_CHECK       (MUTANT == 6)   /* a release under a lower token is taken */
#define DELETES_AT_RELEASE   (MUTANT == 7)   /* the source lets its copy go when it decides */
#define STALE_ACK            (MUTANT == 8)   /* an acknowledgement of an attempt that is over is taken */
#define FOREIGN_MANIFEST     (MUTANT == 9)   /* a manifest that names another device is taken */
#define FOREIGN_ACK          (MUTANT == 10)  /* an acknowledgement that names another device is taken */
#define DISCARD_FORGOTTEN    (MUTANT == 11)  /* a discard can be undone */
#define TWO_COMMITS          (MUTANT == 12)  /* a second attempt at once, and it may commit too */
#define ACTIVATED_EARLY      (MUTANT == 13)  /* Activated leaves before the session is in its place */
#define ANY_TOKEN_ACTIVATED  (MUTANT == 14)  /* Activated is said of every token that was passed by */
#define NO_BRANCH            (MUTANT == 15)  /* what the new owner lacks is overwritten */
#define SEIZE_FROM_RELEASED  (MUTANT == 16)  /* of two devices, the one that just released seizes */
#define NO_VOTE              (MUTANT == 17)  /* of three devices, one alone seizes */
#define PAYLOAD_NOT_LOOKED   (MUTANT == 18)  /* a release activates although the stage is gone */
#define NOBODY_ASKED         (MUTANT == 19)  /* a payload is taken that nobody approved */
#define NO_REPETITION        (MUTANT == 20)  /* a lost release is not sent again */
#define NO_REFETCH           (MUTANT == 21)  /* the designate does not ask for the payload */

/* Tokens in their order (H-1): generation first. The tokens of a generation are numbered from its epoch 0. */
#define EPOCHS (H + 1)
#define TOKENS (G * EPOCHS)
#define GEN(t) ((t) / EPOCHS)
#define EPOCH(t) ((t) % EPOCHS)

#define BIT(n) (1 << (n))
#define HAS(set, n) (((set) >> (n)) & 1)
#define ALL(set, of) (((set) & (of)) == (of))

/* States with a durable record (1.3). S1 to S3 are S0 with something volatile; D1 to D3 and D6 stand beside a state. */
#define NOTHING 0     /* never had the session */
#define OWNER 1       /* S0, and D5 once the session is in its place */
#define RELEASED 2    /* S4 */
#define RETIRED 3     /* S5 */
#define FENCED 4      /* S6 */
#define DESIGNATE 5   /* D4 */
#define ACTIVE 6      /* D5 before the session is in its place: does not act yet */

/* Records that are written and not yet flushed. A device does nothing else meanwhile. */
#define APPROVE 1
#define STAGE 2
#define RELEASE 3
#define ACTIVATE 4
#define DESIGN 5
#define RETIRE 6
#define LEARN 7
#define DISCARD 8
#define SEIZE 9

/* Messages of an attempt (bits of sent[h]) and those that name a token (bits of told[t]). */
#define OFFER 1
#define ACCEPT 2
#define REFUSE 4
#define ABORT 8
#define LAST(r) (8 << (r))      /* the manifest of a last round, and its chunks: 16, 32 */
#define ACK(r) (32 << (r))      /* 64, 128 */
#define CERTIFICATE 1
#define ACTIVATED 2
#define REFETCH 4
#define PAYLOAD 8

/* Durable, at each device. */
byte state[N];
byte known[N];       /* the highest token it has a certificate for */
byte log[N];         /* the session in its place; kept after the release */
byte branch[N];      /* turns that another line of the session lacks (H-9, H-25) */
byte stage[N];       /* attempt of the Staged record, 0 none */
byte round[N];       /* and its round */
byte staged[N];      /* the payload of the stage, as it is on the disk */
byte approved[N];    /* attempts with an Approved record */
byte dead[N];        /* attempts with a Discarded record */
short acted[N];      /* tokens with an Active record and the session in its place */
byte vote[N];        /* the device it votes for in the next generation, plus one; never a second one */

/* Written, not flushed. */
byte writing[N];
byte about[N];       /* attempt or token of the record */
byte at_round[N];

/* Volatile. */
byte live[N];        /* attempts that this source has under way: S1, S2, S3 */
bit in_flight[N];    /* a model or tool call */
#if MUTANT == 3
bit thinks[N];
#endif

/* What attempts and certificates say. They are signed, so they say the same everywhere; the index is what names them. */
byte next = 1;                /* the next handoff id (H-27: never a second time) */
byte to[H + 1];               /* destination, plus one */
byte under[H + 1];            /* token */
byte head[(H + 1) * (R + 1)]; /* head of the attempt's last round r, 0 while there is none */
byte sent[H + 1];
byte holder[TOKENS];          /* whom the certificate of a token makes the owner, plus one */
byte by[TOKENS];              /* the attempt it ends, 0 for a seize */
byte given[TOKENS];           /* the head it names */
byte told[TOKENS];

/* Only for the questions below. */
byte turns = 1;               /* turns committed so far */
byte made[G];                 /* turns by the generation they were committed under */
byte was_staged[H + 1];       /* rounds of which the destination once had the record */
byte over;                    /* attempts of which the source's person was told that they ended */
byte discarded;               /* attempts of which the destination has said that they ended */

#ifdef LIVE
bool calm;                    /* the faults have ended: lines carry, devices run, disks keep */
#else
#define calm 0
#endif

#define HEAD(h, r) head[(h) * (R + 1) + (r)]
#if R == 1
#define NEWEST(h) HEAD(h, 1)
#else
#define NEWEST(h) (HEAD(h, 2) -> HEAD(h, 2) : HEAD(h, 1))
#endif

#if MUTANT == 3
#define ACTS(d) (state[d] == OWNER || thinks[d])
#else
#define ACTS(d) (state[d] == OWNER)
#endif
#define COPY(d) ((stage[d] != 0 && staged[d] != 0) -> staged[d] : log[d])
#define IDLE(d) (writing[d] == 0)
#define IS_OWNER(d) (state[d] == OWNER || state[d] == ACTIVE)

/* broken: what an assertion prints. Always 0, and no part of a state. */
hidden byte I1_two_devices_act;
hidden byte I2_no_copy_has_every_turn;
hidden byte I2_released_without_a_second_copy;
hidden byte I2_the_pinned_copy_is_gone;
hidden byte I3_an_owner_lacks_a_turn;
hidden byte I4_a_token_fell;
hidden byte I4_two_holders_of_a_token;
hidden byte I5_effect_before_its_record;
hidden byte I7_an_attempt_that_was_over_moved_the_session;
hidden byte I8_a_passive_device_had_an_effect;
hidden byte H15_payload_that_nobody_here_approved;
hidden byte H20_a_discard_was_undone;
hidden byte the_place_was_reached;

#define MUST(what, else_broken) if :: (what) -> skip :: else -> assert(else_broken) fi

/* ---- steps that several places take; each is part of one indivisible step ---- */

inline effect(d) {
    MUST(state[d] != RELEASED && state[d] != RETIRED && state[d] != FENCED, I8_a_passive_device_had_an_effect);
    MUST(state[d] == OWNER && HAS(acted[d], known[d]), I5_effect_before_its_record)
}

inline raise(d, t) {
    MUST((t) >= known[d], I4_a_token_fell);
    known[d] = t
}

/* The attempts of a source end: volatile, so this is also what a crash does to them (H-24). */
inline end_attempts(d) {
    over = over | live[d];
    live[d] = 0;
    in_flight[d] = 0
}

inline drop_stage(d) {
    stage[d] = 0;
    round[d] = 0;
    staged[d] = 0
}

/* H-20 */
inline discard(d, h) {
#if MUTANT != 11
    dead[d] = dead[d] | BIT(h);
#endif
    if
    :: to[h] == d + 1 -> discarded = discarded | BIT(h); sent[h] = sent[h] | REFUSE
    :: else -> skip
    fi;
    if
    :: stage[d] == h -> drop_stage(d)
    :: else -> skip
    fi
}

inline keep_aside(d, other) {
#if MUTANT != 15
    branch[d] = branch[d] | (log[d] & ~(other))
#else
    skip
#endif
}

/* S6: what the new owner lacks is kept aside before anything else. */
inline fence(d, t) {
    keep_aside(d, given[t]);
    end_attempts(d);
    if
    :: state[d] == DESIGNATE || state[d] == ACTIVE -> drop_stage(d)
    :: else -> skip
    fi;
    state[d] = FENCED
}

/* A higher token than ours: H-1, H-20 and the rows of 1.3 that a higher token ends. */
inline learn(d, t) {
    if
    :: (t) > known[d] ->
        if
        :: stage[d] != 0 && under[stage[d]] < (t) -> discard(d, stage[d])
        :: else -> skip
        fi;
        if
        :: state[d] == RELEASED && GEN(t) == GEN(known[d]) -> state[d] = RETIRED
        :: state[d] == RELEASED && GEN(t) != GEN(known[d]) -> fence(d, t)
        :: IS_OWNER(d) || state[d] == DESIGNATE ->
            MUST(GEN(t) != GEN(known[d]), I4_two_holders_of_a_token);
            fence(d, t)
        :: else -> skip
        fi;
        raise(d, t)
    :: else -> skip
    fi
}

inline certify(t, h, who) {
#if MUTANT == 2
    MUST(holder[t] == 0 || by[t] == h, I4_two_holders_of_a_token);
#else
    MUST(holder[t] == 0, I4_two_holders_of_a_token);
#endif
    holder[t] = who;
    by[t] = h
}

/* The decision (H-6), at the moment the record is durable. */
inline decide(d, h, t) {
    MUST(!HAS(over, h), I7_an_attempt_that_was_over_moved_the_session);
#if R == 1
    MUST(HAS(was_staged[h], 1) && HEAD(h, 1) == NEWEST(h), I2_released_without_a_second_copy);
#else
    MUST((HAS(was_staged[h], 1) && HEAD(h, 1) == NEWEST(h)) || (HAS(was_staged[h], 2) && HEAD(h, 2) == NEWEST(h)),
        I2_released_without_a_second_copy);
#endif
    certify(t, h, to[h]);
    given[t] = NEWEST(h);
    raise(d, t);
    state[d] = RELEASED;
    live[d] = live[d] & ~BIT(h);
#if MUTANT == 7
    log[d] = 0;
#endif
#if MUTANT != 12
    end_attempts(d)
#endif
}

/* H-9: the new owner takes what it holds: a whole stage, else the copy it kept. */
inline seize(d, t) {
    certify(t, 0, d + 1);
    given[t] = COPY(d);
    keep_aside(d, given[t]);
    log[d] = given[t];
    if
    :: stage[d] != 0 -> discard(d, stage[d])
    :: else -> drop_stage(d)
    fi;
    raise(d, t);
    state[d] = OWNER;
    acted[d] = acted[d] | BIT(t)
}

inline ask(t) {
    if
    :: !NO_REFETCH -> told[t] = told[t] | REFETCH
    :: else -> skip
    fi
}

/* What is written is durable from here on, after a flush or because the disk pleased. What the record permits leaves
   with it (J-1): a message that leaves later cannot be told from one that arrives later. */
inline durable(d) {
    if
    :: writing[d] == APPROVE ->
        approved[d] = approved[d] | BIT(about[d]);
        learn(d, under[about[d]]);
        sent[about[d]] = sent[about[d]] | ACCEPT
    :: writing[d] == STAGE ->
        stage[d] = about[d];
        round[d] = at_round[d];
        if
        :: to[about[d]] == d + 1 ->
            was_staged[about[d]] = was_staged[about[d]] | BIT(at_round[d]);
            sent[about[d]] = sent[about[d]] | ACK(at_round[d])
        :: else -> skip
        fi;
#if MUTANT == 1
        log[d] = staged[d];
        state[d] = OWNER;
        raise(d, under[about[d]]);
        acted[d] = acted[d] | BIT(known[d]);
#endif
        skip
    :: writing[d] == RELEASE ->
        decide(d, about[d], under[about[d]] + 1);
        told[under[about[d]] + 1] = told[under[about[d]] + 1] | CERTIFICATE
    :: writing[d] == ACTIVATE ->
        stage[d] = 0;
        round[d] = 0;
        raise(d, about[d]);
        state[d] = ACTIVE
    :: writing[d] == DESIGN ->
        drop_stage(d);
        raise(d, about[d]);
        state[d] = DESIGNATE;
        ask(about[d])
    :: writing[d] == RETIRE -> state[d] = RETIRED
    :: writing[d] == LEARN -> learn(d, about[d])
    :: writing[d] == DISCARD -> discard(d, about[d])
    :: writing[d] == SEIZE -> seize(d, about[d]); told[about[d]] = told[about[d]] | CERTIFICATE
    fi;
    writing[d] = 0;
    about[d] = 0;
    at_round[d] = 0
}

inline write(d, record, which, r) {
    writing[d] = record;
    about[d] = which;
    at_round[d] = r
}

inline crash(d) {
    end_attempts(d);
#if MUTANT == 3
    thinks[d] = 0;
#endif
    writing[d] = 0;
    about[d] = 0;
    at_round[d] = 0
}

/* ---- what a device does by itself ---- */

#define CAN_SEIZE(d) (IDLE(d) && !IS_OWNER(d) && GEN(known[d]) + 1 < G && COPY(d) != 0 && MAY_SEIZE(d))

/* One certificate for each generation. Three devices vote, once each; two have nobody to ask, so the one that released
   and was not answered has no say (README.md, "What was found"). */
#if N == 2
#define MAY_SEIZE(d) (state[d] != RELEASED || SEIZE_FROM_RELEASED)
#else
#define MAY_SEIZE(d) (NO_VOTE || (vote[d] == (d) + 1 && (vote[((d) + 1) % N] == (d) + 1 || vote[((d) + 2) % N] == (d) + 1)))
#endif

proctype Device(byte d) {
    do
    /* Turns. An agent that escapes its fence also takes one while the session is frozen; not while the decision is
       being written, for a hosted process is stopped before it. */
    :: d_step { ACTS(d) && IDLE(d) && !in_flight[d] && turns < T -> effect(d); in_flight[d] = 1 }
    :: d_step { in_flight[d] && IDLE(d) && turns < T ->
        effect(d);
        log[d] = log[d] | BIT(turns);
        made[GEN(known[d])] = made[GEN(known[d])] | BIT(turns);
        turns++;
        in_flight[d] = 0 }
    :: d_step { in_flight[d] && IDLE(d) && turns == T -> in_flight[d] = 0 }
    :: d_step { !IDLE(d) -> durable(d) }
    /* Power fails. */
    :: d_step { !calm && (live[d] != 0 || in_flight[d] || !IDLE(d)) -> crash(d) }
    :: d_step { !calm && !IDLE(d) -> durable(d); crash(d) }
    /* D5: the session takes its place; what it lacks of what was here is kept (H-25). */
    :: d_step { state[d] == ACTIVE && IDLE(d) &&
        (staged[d] == given[known[d]] || PAYLOAD_NOT_LOOKED) ->
        keep_aside(d, staged[d]);
        log[d] = staged[d];
        drop_stage(d);
        state[d] = OWNER;
        acted[d] = acted[d] | BIT(known[d]);
        told[known[d]] = told[known[d]] | ACTIVATED }
    /* H-18: collected only after Activated. */
    :: d_step { state[d] == RETIRED && IDLE(d) && log[d] != 0 -> log[d] = 0 }
    /* The disk loses a stage. */
    :: d_step { !calm && staged[d] != 0 && IDLE(d) -> staged[d] = 0 }
#if G > 1
    :: d_step { CAN_SEIZE(d) -> write(d, SEIZE, (GEN(known[d]) + 1) * EPOCHS, 0) }
#if N > 2
    :: d_step { IDLE(d) && vote[d] == 0 && GEN(known[d]) == 0 -> vote[d] = 1 }
    :: d_step { IDLE(d) && vote[d] == 0 && GEN(known[d]) == 0 -> vote[d] = 2 }
    :: d_step { IDLE(d) && vote[d] == 0 && GEN(known[d]) == 0 -> vote[d] = 3 }
#endif
#endif
    od
}

/* ---- one attempt, at one device ---- */

inline offer(d, h, whom) {
    to[h] = (whom) + 1;
    under[h] = known[d];
    sent[h] = OFFER;
    live[d] = live[d] | BIT(h);
    next++
}

inline last_round(d, h, r) {
    HEAD(h, r) = log[d];
    sent[h] = sent[h] | LAST(r)
}

inline take_round(d, h, r) {
    staged[d] = HEAD(h, r);
    write(d, STAGE, h, r)
}

inline over_here(d, h, answer) {
    live[d] = live[d] & ~BIT(h);
    over = over | BIT(h);
    sent[h] = sent[h] | answer
}

/* H-4 */
#define MAY_OFFER(d, h) (next == (h) && ACTS(d) && IDLE(d) && !in_flight[d] && (live[d] == 0 || TWO_COMMITS))
/* H-23 */
#define NAMES(h, d) (to[h] == (d) + 1 || FOREIGN_MANIFEST)
/* H-11, H-14, H-15: what may be asked for, sent or written here. */
#define OPEN(d, h) ((HAS(approved[d], h) || NOBODY_ASKED) && !HAS(dead[d], h))
#define UNKNOWN(d, h) (!HAS(approved[d], h) && !HAS(dead[d], h))
/* H-6: everything but the acknowledgement itself. */
#define UNDER_WAY(d, h) ((HAS(live[d], h) || STALE_ACK) && ((ACTS(d) && under[h] == known[d]) || TWO_COMMITS) && \
    !in_flight[d] && IDLE(d))
#define MINE(d, h) (under[h] < TOKENS && holder[under[h]] == (d) + 1 && to[h] != 0)
#if MUTANT == 4
#define BOUND(d, h, r) (HEAD(h, r) != 0)
#elif MUTANT == 5
#define BOUND(d, h, r) (HEAD(h, r) != 0 && HEAD(h, r) == NEWEST(h))
#else
#define BOUND(d, h, r) (HEAD(h, r) != 0 && HEAD(h, r) == NEWEST(h) && HEAD(h, r) == log[d])
#endif
#define DECIDES(d, h, r) (MINE(d, h) && (HAS(sent[h], r + 5) || FOREIGN_ACK) && UNDER_WAY(d, h) && BOUND(d, h, r))

inline commit(d, h) {
    write(d, RELEASE, h, 0);
#if MUTANT == 2
    certify(under[h] + 1, h, to[h]);
    given[under[h] + 1] = NEWEST(h);
    told[under[h] + 1] = told[under[h] + 1] | CERTIFICATE;
#endif
    skip
}

#define CAN_TAKE(d, h, r) ((sent[h] & LAST(r)) && NAMES(h, d) && OPEN(d, h) && IDLE(d) && under[h] >= known[d] && \
    !IS_OWNER(d) && state[d] != DESIGNATE && \
    (stage[d] == 0 || (stage[d] == (h) && round[d] < r)))

proctype Attempt(byte d; byte h) {
    do
    /* The source. */
    :: d_step { MAY_OFFER(d, h) -> offer(d, h, (d + 1) % N) }
#if N > 2
    :: d_step { MAY_OFFER(d, h) -> offer(d, h, (d + 2) % N) }
#endif
    :: d_step { HAS(live[d], h) && (sent[h] & ACCEPT) && IDLE(d) && !in_flight[d] && HEAD(h, 1) == 0 ->
        last_round(d, h, 1) }
#if R > 1
    :: d_step { HAS(live[d], h) && (sent[h] & ACCEPT) && IDLE(d) && !in_flight[d] && HEAD(h, 1) != 0 &&
        HEAD(h, 2) == 0 && HEAD(h, 1) != log[d] -> last_round(d, h, 2) }
    :: d_step { DECIDES(d, h, 2) -> commit(d, h) }
#endif
    :: d_step { DECIDES(d, h, 1) -> commit(d, h) }
    :: d_step { HAS(live[d], h) && IDLE(d) -> over_here(d, h, ABORT) }
    :: d_step { HAS(live[d], h) && IDLE(d) && (sent[h] & REFUSE) -> over_here(d, h, 0) }
    /* The destination: the person says yes, or no; the round is here; it is over. */
    :: d_step { (sent[h] & OFFER) && NAMES(h, d) && UNKNOWN(d, h) && IDLE(d) && !IS_OWNER(d) &&
        under[h] >= known[d] -> write(d, APPROVE, h, 0) }
    :: d_step { (sent[h] & OFFER) && NAMES(h, d) && UNKNOWN(d, h) && IDLE(d) && !IS_OWNER(d) ->
        write(d, DISCARD, h, 0) }
    :: d_step { to[h] == d + 1 && OPEN(d, h) && !(sent[h] & ACCEPT) ->
        sent[h] = sent[h] | ACCEPT }
    :: d_step { CAN_TAKE(d, h, 1) -> take_round(d, h, 1) }
    :: d_step { to[h] == d + 1 && stage[d] == h && round[d] == 1 && staged[d] == HEAD(h, 1) && !(sent[h] & ACK(1)) ->
        sent[h] = sent[h] | ACK(1) }
#if R > 1
    :: d_step { CAN_TAKE(d, h, 2) -> take_round(d, h, 2) }
    :: d_step { to[h] == d + 1 && stage[d] == h && round[d] == 2 && staged[d] == HEAD(h, 2) && !(sent[h] & ACK(2)) ->
        sent[h] = sent[h] | ACK(2) }
#endif
    /* Abort, withdrawal and time (H-11, H-20) do the same here; nothing stands between them. */
    :: d_step { HAS(approved[d], h) && !HAS(dead[d], h) && !HAS(acted[d], under[h] + 1) &&
        !(state[d] == ACTIVE || state[d] == DESIGNATE) && IDLE(d) -> write(d, DISCARD, h, 0) }
    :: d_step { to[h] == d + 1 && HAS(dead[d], h) && !(sent[h] & REFUSE) -> sent[h] = sent[h] | REFUSE }
    od
}

/* ---- one certificate, at one device ---- */

#define HIGHER(d, t) ((t) > known[d] || (NO_TOKEN_CHECK && !IS_OWNER(d)))
#define WHOLE(d, t) (PAYLOAD_NOT_LOOKED -> stage[d] == by[t] : (stage[d] == by[t] && staged[d] == given[t]))

inline receive(d, t) {
    if
    :: holder[t] == d + 1 && by[t] != 0 && WHOLE(d, t) ->
#if MUTANT == 3
        thinks[d] = 1;
        log[d] = staged[d];
        known[d] = t;
#else
        write(d, ACTIVATE, t, 0);
#endif
        skip
    :: holder[t] == d + 1 && by[t] != 0 && !WHOLE(d, t) && HAS(approved[d], by[t]) -> write(d, DESIGN, t, 0)
    :: holder[t] != d + 1 -> write(d, LEARN, t, 0)
    :: else -> skip
    fi
}

proctype Certificate(byte d; byte t) {
    do
    /* It is told by the source until it is answered, by who seized always; from then on it comes by any hand. */
    :: d_step { (state[d] == RELEASED || (state[d] == OWNER && EPOCH(t) == 0)) && known[d] == t &&
        !(told[t] & CERTIFICATE) && !(NO_REPETITION && calm) -> told[t] = told[t] | CERTIFICATE }
    :: d_step { (told[t] & CERTIFICATE) && HIGHER(d, t) && IDLE(d) -> receive(d, t) }
    /* H-8 */
    :: d_step { (state[d] == DESIGNATE || state[d] == ACTIVE) && known[d] == t && staged[d] != given[t] &&
        !(told[t] & REFETCH) && !NO_REFETCH -> told[t] = told[t] | REFETCH }
    :: d_step { state[d] == RELEASED && known[d] == t && (told[t] & REFETCH) && !(told[t] & PAYLOAD) ->
        told[t] = told[t] | PAYLOAD }
    :: d_step { (state[d] == DESIGNATE || state[d] == ACTIVE) && known[d] == t && (told[t] & PAYLOAD) &&
        staged[d] != given[t] && IDLE(d) ->
        staged[d] = given[t] }
    :: d_step { state[d] == DESIGNATE && known[d] == t && staged[d] == given[t] && IDLE(d) ->
        write(d, ACTIVATE, t, 0) }
    /* H-17: said of a token under which it was the owner, and of no other. */
    :: d_step { holder[t] == d + 1 && by[t] != 0 && !(told[t] & ACTIVATED) && (HAS(acted[d], t) ||
        (ACTIVATED_EARLY && state[d] == ACTIVE && known[d] == t) || (ANY_TOKEN_ACTIVATED && known[d] > t)) ->
        told[t] = told[t] | ACTIVATED }
    :: d_step { (told[t] & ACTIVATED) && state[d] == RELEASED && t >= known[d] && GEN(t) == GEN(known[d]) && IDLE(d) ->
        write(d, RETIRE, t, 0) }
    od
}

/* ---- what must hold ---- */

#define BOTH_ACT(a, b) (ACTS(a) && ACTS(b) && GEN(known[a]) == GEN(known[b]))
/* Every turn of a generation, and what it began with. */
#define LINE(g) (given[(g) * EPOCHS] | made[g])
#define LACKS(d) (ACTS(d) && !ALL(log[d], LINE(GEN(known[d]))))
#define HOLDS(d, what) (ALL(log[d], what) || ALL(staged[d], what))
#define KEPT(d) (log[d] | branch[d] | staged[d])
#define UNPINNED(d) (state[d] == RELEASED && !ALL(log[d], given[known[d]]))
#define EVERY_TURN (BIT(turns) - 1)
#define FOREIGN(d) (stage[d] != 0 && (to[stage[d]] != (d) + 1 || !HAS(approved[d], stage[d])))
#define UNDONE(d) (stage[d] != 0 && HAS(discarded, stage[d]))

#if N == 2
#define ANY(p) (p(0) || p(1))
#define ANYWHERE(p, x) (p(0, x) || p(1, x))
#define TWO_ACT BOTH_ACT(0, 1)
#define UNION (KEPT(0) | KEPT(1))
#else
#define ANY(p) (p(0) || p(1) || p(2))
#define ANYWHERE(p, x) (p(0, x) || p(1, x) || p(2, x))
#define TWO_ACT (BOTH_ACT(0, 1) || BOTH_ACT(0, 2) || BOTH_ACT(1, 2))
#define UNION (KEPT(0) | KEPT(1) | KEPT(2))
#endif

#if G == 1
#define TOP 0
#elif G == 2
#define TOP (holder[EPOCHS] != 0)
#else
#define TOP (holder[2 * EPOCHS] != 0 -> 2 : holder[EPOCHS] != 0)
#endif

/* Places that a model must come to, or its silence says nothing: -DREACH=n is found, each. */
#if REACH == 1     /* a discarded stage, a late release, the payload fetched again, and then the owner */
#define REACHED(d) (state[d] == OWNER && HAS(dead[d], by[known[d]]))
#elif REACH == 2   /* the session is back where it began, with a turn from abroad */
#define REACHED(d) ((d) == 0 && state[d] == OWNER && EPOCH(known[d]) == 2 && turns > 1 && made[0] == log[d])
#elif REACH == 3   /* nobody is in charge, and the decision is known to one disk alone */
#define REACHED(d) (state[d] == RELEASED && known[((d) + 1) % N] < known[d] && known[((d) + N - 1) % N] < known[d])
#elif REACH == 4   /* two act, under two generations, and both took a turn */
#define REACHED(d) ((d) == 0 && ACTS(0) && ACTS(N - 1) && GEN(known[0]) != GEN(known[N - 1]) && made[0] > 1 && made[1] > 1)
#elif REACH == 5   /* a turn of the old owner is on a branch, and the session came back to it */
#define REACHED(d) (state[d] == OWNER && GEN(known[d]) == 1 && EPOCH(known[d]) == 1 && (branch[d] & ~log[d]) != 0)
#elif REACH == 6   /* an acknowledgement of an earlier round is there when the later one decides */
#define REACHED(d) (state[d] == RELEASED && (sent[by[known[d]]] & ACK(1)) && HEAD(by[known[d]], R) != 0 && R == 2)
#elif REACH == 7   /* the session came to the third device by way of the second */
#define REACHED(d) ((d) == 2 && state[d] == OWNER && known[d] == 2 && holder[1] == 2)
#endif

/* It has a step only where something is broken, so it costs no states. */
proctype Watch() {
    do
    :: d_step { TWO_ACT -> assert(I1_two_devices_act) }
    :: d_step { !ANYWHERE(HOLDS, LINE(TOP)) || !ALL(UNION, EVERY_TURN) -> assert(I2_no_copy_has_every_turn) }
    :: d_step { ANY(UNPINNED) -> assert(I2_the_pinned_copy_is_gone) }
    :: d_step { ANY(LACKS) -> assert(I3_an_owner_lacks_a_turn) }
    :: d_step { ANY(FOREIGN) -> assert(H15_payload_that_nobody_here_approved) }
    :: d_step { ANY(UNDONE) -> assert(H20_a_discard_was_undone) }
#if REACH > 0
    :: d_step { ANY(REACHED) -> assert(the_place_was_reached) }
#endif
    od
}

#ifdef LIVE
/* The faults end at a moment of their choosing; all that was under way is lost with them, or comes. */
proctype Weather() {
    byte i;
    if
    :: d_step { for (i : 0 .. H) { sent[i] = 0 } for (i : 0 .. TOKENS - 1) { told[i] = 0 } i = 0; calm = 1 }
    :: calm = 1
    fi
}

#define SOMEONE (state[0] == OWNER || state[1] == OWNER || state[N - 1] == OWNER)
#define SETTLED (state[0] != RELEASED && state[1] != RELEASED && state[N - 1] != RELEASED)
ltl I6_someone_acts { [] (calm -> <> SOMEONE) }
ltl I6_all_settles { [] (calm -> <> SETTLED) }
#endif

init {
    byte d, i;
    atomic {
        state[0] = OWNER;
        log[0] = 1;
        acted[0] = 1;
        holder[0] = 1;
        given[0] = 1;
        made[0] = 1;
        for (d : 0 .. N - 1) {
            run Device(d);
            for (i : 1 .. H) { run Attempt(d, i) }
            for (i : 1 .. TOKENS - 1) { run Certificate(d, i) }
        }
#ifdef LIVE
        run Weather();
#else
        run Watch();
#endif
        d = 0;
        i = 0
    }
}
