// What processes of a sandbox may do to the socket on which the worker moves their memory: whatever
// it is, every command of the worker comes to an end, and so does each once they are gone.
#include <cstdlib>

#include "core/base/testing/testing.h"
#include "node/worker/memory_channel.h"
#include "tests/fuzz/memory_script.h"

using namespace lambent;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const TemporaryFolder folder;
  FakeClock clock;
  NullLogSink log;
  loop::EventLoop loop(clock);
  size_t moves = 0;
  size_t wants = 0;
  auto channel = worker::MemoryChannel::open(
      loop, log, folder / "memory", [&](const worker::MemoryMove&) { ++moves; },
      [&](Bytes) { ++wants; });
  if (!channel.ok()) abort();
  ScriptedClients clients(folder / "memory");
  uint64_t sequence = 0;
  const auto turn = [&] { loop.run_once(Duration(0)); };
  const auto command = [&](uint8_t which) {
    if (which % 3 == 2) return (*channel)->grant(Bytes(which));
    ++sequence;
    which % 3 == 0 ? (*channel)->move_out(protocol::MemoryMoveDepth::kMemory)
                   : (*channel)->move_in();
  };
  for (; size >= 4; data += 4, size -= 4) {
    const ScriptStep step = step_of(std::span<const uint8_t, 4>(data, 4));
    if (step.deed == Deed::kOther) {
      command(step.first);
    } else if (step.deed == Deed::kWait) {
      clock.advance(milliseconds(step.first * 20));
    } else {
      clients.act(step, sequence);
    }
    turn();
  }
  clients.close_all();
  for (int i = 0; i < 8; ++i) turn();
  const size_t before = moves;
  command(0);
  for (int i = 0; i < 400 && moves == before; ++i) {
    clock.advance(milliseconds(50));
    turn();
  }
  if (moves == before) abort();
  if ((*channel)->processes() != 0) abort();
  return 0;
}
