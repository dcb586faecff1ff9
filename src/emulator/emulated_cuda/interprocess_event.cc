#include "emulator/emulated_cuda/interprocess_event.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

namespace lambent::emulated_cuda {

namespace {

constexpr size_t kPage_bytes = 4096;

bool is_page(int descriptor, uint64_t file) {
  struct stat info;
  return fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode) &&
         static_cast<uint64_t>(info.st_ino) == file && info.st_size == kPage_bytes;
}

}  // namespace

std::unique_ptr<InterprocessEvent> InterprocessEvent::create() {
  std::unique_ptr<InterprocessEvent> event(new InterprocessEvent);
  event->descriptor_ = memfd_create("emulated-cuda-event", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (event->descriptor_ < 0) return nullptr;
  // No process that opens it may cut the page away from under the others.
  bool made = ftruncate(event->descriptor_, kPage_bytes) == 0 &&
              fcntl(event->descriptor_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0 &&
              event->map(event->descriptor_);
  return made ? std::move(event) : nullptr;
}

std::unique_ptr<InterprocessEvent> InterprocessEvent::open(const EventTicket& ticket) {
  std::string path =
      "/proc/" + std::to_string(ticket.pid) + "/fd/" + std::to_string(ticket.descriptor);
  int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return nullptr;
  std::unique_ptr<InterprocessEvent> event(new InterprocessEvent);
  bool opened = is_page(descriptor, ticket.file) && event->map(descriptor);
  ::close(descriptor);
  return opened ? std::move(event) : nullptr;
}

InterprocessEvent::~InterprocessEvent() {
  if (page_) munmap(page_, kPage_bytes);
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool InterprocessEvent::map(int descriptor) {
  void* page = mmap(nullptr, kPage_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (page == MAP_FAILED) return false;
  page_ = static_cast<Page*>(page);  // a new file's zeros are the state of one never recorded
  return true;
}

bool InterprocessEvent::tell(EventTicket* ticket) const {
  struct stat info;
  if (descriptor_ < 0 || fstat(descriptor_, &info) != 0) return false;
  ticket->file = static_cast<uint64_t>(info.st_ino);
  ticket->pid = getpid();
  ticket->descriptor = descriptor_;
  return true;
}

uint64_t InterprocessEvent::begin(Recorder recorder) {
  const uint64_t number = page_->latest.fetch_add(1) + 1;
  slot(number).row.store(recorder.row);
  slot(number).generation.store(recorder.generation);
  slot(number).begun.store(number);  // from now on the recorder can be asked for
  return number;
}

void InterprocessEvent::finish(uint64_t number, int64_t at_ns) {
  Slot& own = slot(number);
  uint64_t seen = own.finished.load();
  while (seen < number) {
    own.at_ns.store(at_ns);
    if (own.finished.compare_exchange_weak(seen, number)) return;
  }
}

uint64_t InterprocessEvent::latest() const { return page_->latest.load(); }

bool InterprocessEvent::reached(uint64_t number) const {
  return slot(number).finished.load() >= number;
}

int64_t InterprocessEvent::reached_ns(uint64_t number) const { return slot(number).at_ns.load(); }

bool InterprocessEvent::recorder_of(uint64_t number, Recorder* recorder) const {
  if (slot(number).begun.load() != number) return false;
  *recorder = {static_cast<uint32_t>(slot(number).row.load()), slot(number).generation.load()};
  return slot(number).begun.load() == number;
}

}  // namespace lambent::emulated_cuda
