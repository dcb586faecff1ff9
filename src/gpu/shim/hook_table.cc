#include "gpu/shim/hook_table.h"

#include <string.h>

#include "gpu/shim/abi.h"
#include "gpu/shim/log.h"

// Declared by name only: what matters here is where they are.
#define HOOK(name) extern "C" void name();
#include "driver_hooks.inc"
#undef HOOK

namespace lambent::shim {
namespace {

struct Hook {
  const char* name;
  void* hook;
  void* real;
};

Hook hooks[] = {
#define HOOK(name) {#name, reinterpret_cast<void*>(&name), nullptr},
#include "driver_hooks.inc"
#undef HOOK
};

bool are_known = false;
bool exports_answer = false;

// Looked up once. Threads that come together write the same values.
void learn_addresses() {
  if (__atomic_load_n(&are_known, __ATOMIC_ACQUIRE) || open_real_library() == nullptr) return;
  for (Hook& hook : hooks) {
    __atomic_store_n(&hook.real, real_function(hook.name), __ATOMIC_RELAXED);
  }
  // A name that every driver has, asked for in a version that every driver knows.
  using Ask = Status (*)(const char*, void**, int, unsigned long long);
  const Ask ask = reinterpret_cast<Ask>(real_function("cuGetProcAddress"));
  void* answer = nullptr;
  const bool agrees =
      ask != nullptr && ask("cuMemAlloc", &answer, 11030, 0) == kSuccess && answer != nullptr &&
      (answer == real_function("cuMemAlloc_v2") || hook_of_name("cuMemAlloc_v2") == answer);
  __atomic_store_n(&exports_answer, agrees, __ATOMIC_RELAXED);
  if (!agrees) log_line("cuGetProcAddress answers with other addresses: hooks go by name");
  __atomic_store_n(&are_known, true, __ATOMIC_RELEASE);
}

}  // namespace

void* hook_of_address(void* address) {
  learn_addresses();
  if (address == nullptr) return address;
  for (const Hook& hook : hooks) {
    if (__atomic_load_n(&hook.real, __ATOMIC_RELAXED) == address) return hook.hook;
  }
  return address;
}

void* hook_of_name(const char* name) {
  for (const Hook& hook : hooks) {
    if (strcmp(hook.name, name) == 0) return hook.hook;
  }
  return nullptr;
}

bool is_hook(const void* address) {
  for (const Hook& hook : hooks) {
    if (hook.hook == address) return true;
  }
  return false;
}

bool driver_answers_with_exports() {
  learn_addresses();
  return __atomic_load_n(&exports_answer, __ATOMIC_RELAXED);
}

}  // namespace lambent::shim
