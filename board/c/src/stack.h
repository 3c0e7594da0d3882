
/*
 * Declares a static stack of SIZE bytes, whole pages of 4096, and `NAME`, by which takt_thread_spawn is given it. Below its
 * addresses are 64 KiB that no memory backs: a thread that runs over the end of its stack ends in a fault, and changes nothing
 * else.
 */
#define TAKT_STACK(NAME, SIZE) \
  static unsigned char NAME##_window[65536 + (SIZE)] __attribute__((aligned(4096), section(".bss.takt.window"))); \
  static unsigned char NAME##_memory[SIZE] __attribute__((aligned(4096))); \
  _Static_assert((SIZE) > 0 && (SIZE) % 4096 == 0, "a stack is of whole pages"); \
  static const struct { const void *stack, *memory; unsigned size, nr; } NAME##_registration \
      __attribute__((used, aligned(8), section(".takt.stacks"))) = { NAME##_window, NAME##_memory, (SIZE), 1 }; \
  static const struct takt_stack NAME = { NAME##_window + 65536, SIZE }
