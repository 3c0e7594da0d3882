
/*
 * Declares a static stack of SIZE bytes, whole pages of 4096, and `NAME`, by which takt_thread_spawn is given it. The page
 * below it is unmapped at boot: a thread that runs over the end of its stack ends in a fault, and changes nothing else.
 */
#define TAKT_STACK(NAME, SIZE) \
  static struct { \
    _Alignas(4096) unsigned char guard[4096]; \
    unsigned char memory[SIZE]; \
  } NAME##_storage; \
  _Static_assert((SIZE) > 0 && (SIZE) % 4096 == 0, "a stack is of whole pages"); \
  static const void *const NAME##_registration __attribute__((used, section(".takt.stacks"))) = &NAME##_storage; \
  static const struct takt_stack NAME = { NAME##_storage.memory, SIZE }
