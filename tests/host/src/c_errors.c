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
static struct takt_condvar condvar;
static struct takt_queue queue;
static struct takt_timer timer;
static unsigned char memory[2 * 300]; /* two messages, larger than those of the kernel's own queues */
static int32_t codes[4];

static void locker(void *argument) {
  (void)argument;
  codes[0] = takt_mutex_unlock(&mutex);
  codes[1] = takt_mutex_lock(&misused, TAKT_NEVER);
  takt_semaphore_give(&begun);
  takt_semaphore_take(&semaphore, TAKT_NEVER);
  /* It keeps `misused`. */
}

static void forget(void *argument) { (void)argument; }

/* In the timer interrupt, where nothing waits. */
static void on_timer(void *argument) {
  char message[300];
  codes[0] = takt_mutex_unlock(&mutex);
  codes[1] = takt_semaphore_take(&semaphore, TAKT_NEVER);
  codes[2] = takt_queue_receive(&queue, message, TAKT_NEVER);
  codes[3] = takt_sleep_ns(1);
  *(double *)argument *= 1.5;
  takt_semaphore_give(&begun);
}

static void notifier(void *argument) {
  (void)argument;
  codes[0] = takt_mutex_lock(&mutex, TAKT_NEVER);
  codes[1] = takt_condvar_notify_one(&condvar);
  codes[2] = takt_mutex_unlock(&mutex);
}

static void sender(void *argument) {
  static char message[300];
  for (int n = 0; n < 3; n++) {
    message[0] = message[299] = (char)n;
    codes[n] = takt_queue_send(&queue, message, *(const uint64_t *)argument);
  }
}

static int timers(void) {
  static double value = 2.0;
  GIVES(takt_timer_arm(&timer, 0), TAKT_NOT_INITIALISED);
  GIVES(takt_timer_init(&timer, 0, 0), TAKT_INVALID_ARGUMENT);
  GIVES(takt_timer_init(&timer, on_timer, &value), TAKT_OK);
  GIVES(takt_timer_init(&timer, on_timer, &value), TAKT_INVALID_STATE);
  GIVES(takt_timer_cancel(&timer), TAKT_INVALID_STATE);
  GIVES(takt_timer_arm(&timer, takt_after_ns(1000000000)), TAKT_OK);
  GIVES(takt_timer_cancel(&timer), TAKT_OK);
  GIVES(takt_timer_arm(&timer, takt_after_ns(1000000)), TAKT_OK);
  GIVES(takt_semaphore_take(&begun, takt_after_ns(900000)), TAKT_TIMED_OUT);
  GIVES(takt_semaphore_take(&begun, takt_after_ns(200000)), TAKT_OK);
  GIVES(takt_timer_cancel(&timer), TAKT_INVALID_STATE);
  GIVES(codes[0], TAKT_NOT_OWNER);
  GIVES(codes[1], TAKT_WRONG_CONTEXT);
  GIVES(codes[2], TAKT_WRONG_CONTEXT);
  GIVES(codes[3], TAKT_WRONG_CONTEXT);
  GIVES(value == 3.0, 1);
  return 0;
}

static int condvars(void) {
  GIVES(takt_condvar_wait(&condvar, &mutex, 0), TAKT_NOT_INITIALISED);
  GIVES(takt_condvar_notify_one(0), TAKT_INVALID_ARGUMENT);
  GIVES(takt_condvar_init(&condvar), TAKT_OK);
  GIVES(takt_condvar_init(&condvar), TAKT_INVALID_STATE);
  GIVES(takt_condvar_notify_all(&condvar), TAKT_OK);
  GIVES(takt_condvar_wait(&condvar, 0, 0), TAKT_INVALID_ARGUMENT);
  GIVES(takt_condvar_wait(&condvar, &mutex, 0), TAKT_NOT_OWNER);
  GIVES(takt_mutex_lock(&mutex, TAKT_NEVER), TAKT_OK);
  GIVES(takt_condvar_wait(&condvar, &mutex, takt_after_ns(1000)), TAKT_TIMED_OUT);
  GIVES(takt_mutex_lock(&mutex, TAKT_NEVER), TAKT_DEADLOCK);
  GIVES(takt_thread_spawn(&thread, "notifier", 60, &stack, notifier, 0), TAKT_OK);
  GIVES(takt_condvar_wait(&condvar, &mutex, takt_after_ns(1000000)), TAKT_OK);
  GIVES(takt_mutex_unlock(&mutex), TAKT_OK);
  GIVES(takt_thread_join(&thread, TAKT_NEVER), TAKT_OK);
  GIVES(codes[0] | codes[1] | codes[2], TAKT_OK);
  return 0;
}

static int queues(void) {
  static uint64_t deadline = TAKT_NEVER;
  static char message[300];
  GIVES(takt_queue_send(&queue, message, 0), TAKT_NOT_INITIALISED);
  GIVES(takt_queue_init(&queue, 0, 300, 2), TAKT_INVALID_ARGUMENT);
  GIVES(takt_queue_init(&queue, memory, 0, 2), TAKT_INVALID_ARGUMENT);
  GIVES(takt_queue_init(&queue, memory, 300, 0), TAKT_INVALID_ARGUMENT);
  GIVES(takt_queue_init(&queue, memory, SIZE_MAX, 2), TAKT_INVALID_ARGUMENT);
  GIVES(takt_queue_init(&queue, memory, 300, 2), TAKT_OK);
  GIVES(takt_queue_init(&queue, memory, 300, 2), TAKT_INVALID_STATE);
  GIVES(takt_queue_send(&queue, 0, 0), TAKT_INVALID_ARGUMENT);
  GIVES(takt_queue_receive(&queue, 0, 0), TAKT_INVALID_ARGUMENT);
  GIVES(takt_queue_receive(&queue, message, takt_after_ns(1000)), TAKT_TIMED_OUT);
  /* The third waits for room. */
  GIVES(takt_thread_spawn(&thread, "sender", 60, &stack, sender, &deadline), TAKT_OK);
  GIVES(takt_thread_join(&thread, 0), TAKT_TIMED_OUT);
  GIVES(takt_queue_send(&queue, message, 0), TAKT_TIMED_OUT);
  for (int n = 0; n < 3; n++) {
    GIVES(takt_queue_receive(&queue, message, TAKT_NEVER), TAKT_OK);
    GIVES(message[0] == n && message[299] == n, 1);
  }
  GIVES(takt_thread_join(&thread, TAKT_NEVER), TAKT_OK);
  GIVES(codes[0] | codes[1] | codes[2], TAKT_OK);
  GIVES(takt_queue_receive(&queue, message, 0), TAKT_TIMED_OUT);
  return 0;
}

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
  GIVES(takt_mutex_unlock(&mutex), TAKT_OK);
  GIVES(condvars(), 0);
  GIVES(queues(), 0);
  GIVES(timers(), 0);
  GIVES(takt_mutex_lock(&mutex, TAKT_NEVER), TAKT_OK);
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
