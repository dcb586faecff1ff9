#include "bin/kept_node.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "bin/worker_setup.h"
#include "core/base/fd.h"
#include "core/crypto/crypto.h"

namespace lambent {
namespace {

constexpr size_t kMostPreset = Bytes::mib(1).count;
// An image begins with what tells its format from others, and with its size.
constexpr size_t kFormat = 16;

// Two programs that agree in it read and write the same node.
Result<std::string> machine_of(const WorkerConfig& config, const std::string& image) {
  const OwnedFd file(open(image.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat facts {};
  std::string format(kFormat, '\0');
  if (!file.valid() || fstat(file.get(), &facts) != 0 ||
      pread(file.get(), format.data(), kFormat, 0) < 0) {
    return error_from_errno("read " + image, errno);
  }
  // The preset may be a file, which changes.
  const auto described = read_file(config.gpu_preset, kMostPreset);
  std::string text = format + std::to_string(facts.st_size) + '\0' + config.gpu_preset + '\0' +
                     std::to_string(config.time_scale) + '\0' +
                     std::to_string(config.memory_scale) + '\0';
  if (described.ok()) text += *described;
  return std::string(crypto::bytes_of(crypto::sha256(text)));
}

bool has_gpu(const worker::KeptSandbox& sandbox) { return sandbox.gpu.has_value(); }

}  // namespace

Result<ServedNode> serve_emulated_node(const WorkerConfig& config, const worker::GpuDriver& driver,
                                       loop::EventLoop& loop, LogSink& log,
                                       worker::KeptSandboxes& kept) {
  ServedNode node;
  if (driver.emulated_node.empty()) return node;
  const std::string image = node_image(driver);
  ASSIGN_OR_RETURN(node.machine, machine_of(config, image));
  auto& left = kept.record.node;
  if (left && left->machine == node.machine) {
    unlink(image.c_str());
    node.server = std::make_unique<worker::EmulatedNodeServer>(
        loop, log,
        worker::EmulatedNodeServer::Files{kept.take(left->live), kept.take(left->pristine),
                                          kept.take(left->listener)},
        driver.emulated_node);
    return node;
  }
  // No plan has none: they end with all that were not adopted.
  for (worker::KeptSandbox& each : kept.record.sandboxes) {
    if (has_gpu(each)) each.plan.clear();
  }
  ASSIGN_OR_RETURN(node.server,
                   worker::EmulatedNodeServer::open(loop, log, image, driver.emulated_node));
  return node;
}

void keep_node(const ServedNode& node, worker::KeptSandboxes& kept) {
  if (node.server == nullptr || std::ranges::none_of(kept.record.sandboxes, has_gpu)) return;
  worker::EmulatedNodeServer::Files files = node.server->hand_over();
  const auto first = static_cast<worker::DescriptorNumber>(kept.descriptors.size());
  kept.record.node = worker::KeptNode{
      .live = first, .pristine = first + 1, .listener = first + 2, .machine = node.machine};
  kept.descriptors.push_back(std::move(files.live));
  kept.descriptors.push_back(std::move(files.pristine));
  kept.descriptors.push_back(std::move(files.listener));
}

}  // namespace lambent
