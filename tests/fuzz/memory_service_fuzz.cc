// What processes of a sandbox may do to the socket at which lambent-device gives turns and leases:
// whatever it is, another sandbox gets its turn and its lease, and nothing is lost once they are
// gone.
#include <cstdlib>

#include "core/base/testing/testing.h"
#include "gpu/monitor/memory_service.h"
#include "tests/fuzz/memory_script.h"

using namespace lambent;
using protocol::MemoryMessage;
using protocol::MemoryMessageKind;

namespace {

constexpr Bytes kBudget = Bytes::mib(16);
constexpr Bytes kShare = Bytes::mib(8);  // of each sandbox

class Service {
 public:
  Service() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) abort();
    control_ = OwnedFd(ends[0]);
    service_ = std::make_unique<monitor::MemoryService>(
        loop_, OwnedFd(ends[1]),
        monitor::MemoryServiceOptions{.budget = kBudget, .sparse = true, .link = {.turns = 1}},
        [] { abort(); });
  }

  // On the devices from the first to this one, as its program numbers them: the last one first.
  void serve(uint64_t sandbox, const std::string& path, uint32_t last_device) {
    const auto listener = listen_packets(path, 0600);
    if (!listener.ok()) abort();
    MemoryMessage message;
    message.sequence = sandbox;
    message.kind = MemoryMessageKind::kServeOnDeviceToo;
    for (message.process = last_device; message.process > 0;) {
      --message.process;
      if (!send_packet(control_.get(), bytes_of(message)).ok()) abort();
    }
    message.kind = MemoryMessageKind::kServeSandbox;
    message.process = last_device;
    message.bytes = kShare.count;
    const int fds[] = {listener->get()};
    if (!send_packet(control_.get(), bytes_of(message), fds).ok()) abort();
    turn();
  }
  void turn() { loop_.run_once(Duration(0)); }
  void wait(Duration time) { clock_.advance(time); }

  // Whether it hears that it has what it asks for.
  bool gets(const OwnedFd& client, MemoryMessageKind wish, Bytes bytes, MemoryMessageKind answer) {
    MemoryMessage message;
    message.kind = wish;
    message.bytes = bytes.count;
    if (!send_packet(client.get(), bytes_of(message)).ok()) return false;
    for (int i = 0; i < 2000; ++i) {
      loop_.run_once(milliseconds(1));
      clock_.advance(milliseconds(10));  // turns that others do not give back run out
      char buffer[sizeof(MemoryMessage)];
      const auto packet = receive_packet(client.get(), buffer);
      if (!packet.ok()) return false;
      if (!packet->has_value()) continue;
      const auto heard = protocol::memory_message_from(std::span(buffer, (*packet)->size));
      return heard && heard->kind == answer;
    }
    return false;
  }

 private:
  FakeClock clock_;
  loop::EventLoop loop_{clock_};
  OwnedFd control_;
  std::unique_ptr<monitor::MemoryService> service_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const TemporaryFolder folder;
  Service service;
  // The sound one has the device that the hostile one's program calls its second.
  service.serve(1, folder / "hostile", 1);
  service.serve(2, folder / "sound", 0);
  ScriptedClients clients(folder / "hostile");
  const ScriptedClients others(folder / "sound");
  for (; size >= 4; data += 4, size -= 4) {
    const ScriptStep step = step_of(std::span<const uint8_t, 4>(data, 4));
    if (step.deed == Deed::kWait) service.wait(milliseconds(step.first * 20));
    if (step.deed < Deed::kOther) clients.act(step, 0);
    service.turn();
  }
  const OwnedFd sound = others.connect_once();
  if (!service.gets(sound, MemoryMessageKind::kWantLease, kShare, MemoryMessageKind::kLease)) {
    abort();
  }
  if (!service.gets(sound, MemoryMessageKind::kWantLink, Bytes(1), MemoryMessageKind::kGrantLink)) {
    abort();
  }
  // A sandbox that begins again has its whole share.
  clients.close_all();
  service.serve(1, folder / "hostile", 1);
  const OwnedFd again = clients.connect_once();
  if (!service.gets(again, MemoryMessageKind::kWantLease, kShare, MemoryMessageKind::kLease)) {
    abort();
  }
  return 0;
}
