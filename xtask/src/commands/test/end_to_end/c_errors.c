/* A program that does what it should not, and is told so; then it runs over the end of a stack. */
#include "takt.h"

/* The line of what gives another code is what main returns. */
#define GIVES(call, code) \
  do { \
    const int32_t given = (call); \
    if (given != (code)) { \
      takt_log_value(#call, given); \
      return __LINE__; \
    } \
  } while (0)

TAKT_STACK(stack, 8192);
static struct takt_thread thread, other;
static struct takt_semaphore semaphore, begun, never;
static struct takt_mutex mutex, misused;
static struct takt_flags flags;
static int32_t codes[2];

static void locker(void *argument) {
  (void)argument;
  codes[0] = takt_mutex_unlock(&mutex);
  codes[1] = takt_mutex_lock(&misused, TAKT_NEVER);
  takt_semaphore_give(&begun);
  takt_semaphore_take(&semaphore, TAKT_NEVER);
  /* It keeps `misused`. */
}

static void forget(void *argument) { (void)argument; }

static __attribute__((noinline)) int deeper(volatile int *above) {
  volatile int here[64];
  here[0] = *above + 1;
  if (here[0] == 0) {
    return 0;
  }
  return deeper(here) + here[0];
}

static void overflow(void *argument) {
  volatile int top = 0;
  *(volatile int *)argument = deeper(&top);
}

int main(void) {
  uint32_t found = 0;

  GIVES(takt_semaphore_give(&semaphore), TAKT_NOT_INITIALISED);
  GIVES(takt_semaphore_take(0, 0), TAKT_INVALID_ARGUMENT);
  GIVES(takt_semaphore_init(&semaphore, 2, 1), TAKT_INVALID_ARGUMENT);
  GIVES(takt_semaphore_init(0, 0, 1), TAKT_INVALID_ARGUMENT);
  GIVES(takt_semaphore_init(&semaphore, 0, 1), TAKT_OK);
  GIVES(takt_semaphore_init(&semaphore, 0, 1), TAKT_INVALID_STATE);
  GIVES(takt_semaphore_take(&semaphore, 0), TAKT_TIMED_OUT);
  GIVES(takt_semaphore_take(&semaphore, takt_after_ns(1000)), TAKT_TIMED_OUT);
  GIVES(takt_semaphore_give(&semaphore), TAKT_OK);
  GIVES(takt_semaphore_give(&semaphore), TAKT_OVERFLOW);
  GIVES(takt_semaphore_take(&semaphore, 0), TAKT_OK);
  GIVES(takt_semaphore_init(&begun, 0, 1), TAKT_OK);
  *(unsigned char *)&never = 0xef; /* not zeroed */
  GIVES(takt_semaphore_init(&never, 0, 1), TAKT_INVALID_STATE);
  GIVES(takt_semaphore_take(&never, 0), TAKT_NOT_INITIALISED);

  GIVES(takt_mutex_lock(&mutex, 0), TAKT_NOT_INITIALISED);
  GIVES(takt_mutex_init((struct takt_mutex *)((char *)&mutex + 1)), TAKT_INVALID_ARGUMENT);
  GIVES(takt_mutex_init(&mutex), TAKT_OK);
  GIVES(takt_mutex_init(&mutex), TAKT_INVALID_STATE);
  GIVES(takt_mutex_init(&misused), TAKT_OK);
  GIVES(takt_mutex_unlock(&mutex), TAKT_NOT_OWNER);
  GIVES(takt_mutex_lock(&mutex, TAKT_NEVER), TAKT_OK);
  GIVES(takt_mutex_lock(&mutex, TAKT_NEVER), TAKT_DEADLOCK);
  /* What is an object of one kind is none of another. */
  GIVES(takt_semaphore_give((struct takt_semaphore *)&mutex), TAKT_NOT_INITIALISED);

  GIVES(takt_flags_init(&flags, 1), TAKT_OK);
  GIVES(takt_flags_wait(&flags, 0, TAKT_ANY, 0, 0), TAKT_INVALID_ARGUMENT);
  GIVES(takt_flags_wait(&flags, 1, 4, 0, 0), TAKT_INVALID_ARGUMENT);
  GIVES(takt_flags_wait(&flags, 3, TAKT_ALL, 0, 0), TAKT_TIMED_OUT);
  GIVES(takt_flags_set(&flags, 6), TAKT_OK);
  GIVES(takt_flags_wait(&flags, 3, TAKT_ALL_CLEAR, 0, &found), TAKT_OK);
  GIVES((int32_t)found, 7);
  GIVES(takt_flags_clear(&flags, 4), TAKT_OK);
  GIVES(takt_flags_wait(&flags, 7, TAKT_ANY, 0, 0), TAKT_TIMED_OUT);

  GIVES(takt_thread_join(&thread, 0), TAKT_NOT_INITIALISED);
  GIVES(takt_thread_spawn(0, "x", 60, &stack, locker, 0), TAKT_INVALID_ARGUMENT);
  GIVES(takt_thread_spawn(&thread, 0, 60, &stack, locker, 0), TAKT_INVALID_ARGUMENT);
  GIVES(takt_thread_spawn(&thread, "x", 100, &stack, locker, 0), TAKT_INVALID_ARGUMENT);
  GIVES(takt_thread_spawn(&thread, "x", 60, 0, locker, 0), TAKT_INVALID_ARGUMENT);
  GIVES(takt_thread_spawn(&thread, "x", 60, &stack, 0, 0), TAKT_INVALID_ARGUMENT);
  GIVES(takt_thread_spawn(&thread, "\xff", 60, &stack, locker, 0), TAKT_INVALID_ARGUMENT);
  GIVES(takt_thread_spawn(&thread, "locker", 60, &stack, locker, 0), TAKT_OK);
  GIVES(takt_semaphore_take(&begun, TAKT_NEVER), TAKT_OK);
  GIVES(codes[0], TAKT_NOT_OWNER);
  GIVES(codes[1], TAKT_OK);
  GIVES(takt_mutex_lock(&misused, takt_after_ns(1000)), TAKT_TIMED_OUT);
  GIVES(takt_thread_spawn(&thread, "y", 60, &stack, forget, 0), TAKT_INVALID_STATE);
  GIVES(takt_thread_spawn(&other, "y", 60, &stack, forget, 0), TAKT_STACK_IN_USE);
  GIVES(takt_thread_join(&thread, 0), TAKT_TIMED_OUT);
  GIVES(takt_semaphore_give(&semaphore), TAKT_OK);
  GIVES(takt_thread_join(&thread, TAKT_NEVER), TAKT_OK);
  GIVES(takt_thread_join(&thread, TAKT_NEVER), TAKT_NOT_INITIALISED);
  GIVES(takt_mutex_lock(&misused, TAKT_NEVER), TAKT_OWNER_DIED);
  /* Variable and stack are free, and so is what could not be spawned. */
  GIVES(takt_thread_spawn(&other, "y", 60, &stack, forget, 0), TAKT_OK);
  GIVES(takt_thread_join(&other, TAKT_NEVER), TAKT_OK);

  GIVES(takt_log(0), TAKT_INVALID_ARGUMENT);
  GIVES(takt_log("\xff"), TAKT_INVALID_ARGUMENT);
  GIVES(takt_trace_marker_value(0, 1), TAKT_INVALID_ARGUMENT);

  const uint64_t before = takt_now();
  GIVES(takt_sleep_ns(2000000), TAKT_OK);
  const uint64_t slept = takt_cycles_to_ns(takt_now() - before);
  GIVES(slept >= 2000000 && slept < 2010000, 1);

  takt_log("all errors were told");
  GIVES(takt_thread_spawn(&thread, "deep", 60, &stack, overflow, &codes), TAKT_OK);
  return __LINE__;
}
