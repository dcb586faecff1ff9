// ExecutorUnderTest: a lambent-executor and the worker's end of its socket, for benchmarks, with
// what these need to end at the first error and to count.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/packet.h"
#include "core/base/time.h"
#include "core/protocol/executor_message.h"

extern char** environ;

namespace lambent::bench {

template <typename T>
T must(Result<T> result, const char* what) {
  if (!result.ok()) {
    std::fprintf(stderr, "bench: %s: %s\n", what, to_string(result.error()).c_str());
    std::exit(1);
  }
  return std::move(*result);
}
inline void must(const Result<void>& result, const char* what) {
  if (result.ok()) return;
  std::fprintf(stderr, "bench: %s: %s\n", what, to_string(result.error()).c_str());
  std::exit(1);
}

inline double microseconds_since(Instant begin) {
  return to_milliseconds(SystemClock().now() - begin) * 1e3;
}
inline double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
}

// A lambent-executor and the worker's end of its socket.
class ExecutorUnderTest {
 public:
  // Below `folder`, with more words on the command line.
  ExecutorUnderTest(const std::string& folder, bool gpu, const std::vector<std::string>& more = {})
      : buffer_(1 << 17) {
    const std::string path = folder + "/socket";
    const auto listening = must(listen_packets(path, 0600), "a socket");
    std::vector<std::string> variables;
    for (char** each = environ; *each != nullptr; ++each) {
      if (!std::string_view(*each).starts_with("EMULATED_CUDA_NODE=")) variables.push_back(*each);
    }
    if (!gpu) {
      variables.push_back("LD_LIBRARY_PATH=" LAMBENT_BINARY_DIR "/lib/emulated");
      variables.push_back("EMULATED_CUDA_NODE=" + folder + "/executor.node");
    }
    std::vector<char*> environment;
    for (auto& each : variables) environment.push_back(each.data());
    environment.push_back(nullptr);
    std::vector<std::string> words = {LAMBENT_BINARY_DIR "/bin/lambent-executor", "--socket", path};
    words.insert(words.end(), more.begin(), more.end());
    std::vector<char*> arguments;
    for (auto& each : words) arguments.push_back(each.data());
    arguments.push_back(nullptr);
    if (posix_spawn(&pid_, arguments[0], nullptr, nullptr, arguments.data(), environment.data()) !=
        0) {
      must(Error{ErrorCode::kInternal, "posix_spawn"}, "lambent-executor");
    }
    pollfd waiting = {listening.get(), POLLIN, 0};
    poll(&waiting, 1, 30'000);
    socket_ = OwnedFd(accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
    receive<protocol::ExecutorHello>();
  }
  ~ExecutorUnderTest() {
    socket_.reset();
    waitpid(pid_, nullptr, 0);
  }
  ExecutorUnderTest(const ExecutorUnderTest&) = delete;
  ExecutorUnderTest& operator=(const ExecutorUnderTest&) = delete;

  template <typename Message>
  Message receive() {
    auto packet = must(receive_packet(socket_.get(), buffer_), "lambent-executor");
    auto message =
        must(protocol::decode_executor_message({buffer_.data(), packet ? packet->size : 0}),
             "a message");
    if (const auto* failed = std::get_if<protocol::InstanceFailed>(&message)) {
      must(failed->error, "an instance");
    }
    if (!std::holds_alternative<Message>(message)) {
      must(Error{ErrorCode::kInternal, "not the answer"}, "lambent-executor");
    }
    return std::get<Message>(std::move(message));
  }

  struct InstanceOptions {
    Bytes memory = Bytes::mib(1);
    bool modelled = false;                                // kernels are timed, not computed
    std::vector<std::pair<std::string, int>> files = {};  // more of the package, by name
  };
  // Until the instance is ready; the bundle lies in `folder`.
  double add_instance_us(uint64_t instance, const std::string& folder, const std::string& graph) {
    return add_instance_us(instance, folder, graph, InstanceOptions());
  }
  double add_instance_us(uint64_t instance, const std::string& folder, const std::string& graph,
                         const InstanceOptions& options) {
    protocol::AddInstance message;
    message.instance = SandboxId(instance);
    message.graph = "graph.json";
    message.memory = options.memory;
    message.modelled = options.modelled;
    std::vector<OwnedFd> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file()) continue;
      message.files.push_back("bundles/k/" + entry.path().lexically_relative(folder).string());
      files.emplace_back(open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
    }
    message.files.push_back("graph.json");
    files.emplace_back(memfd_create("graph", MFD_CLOEXEC));
    must(write_all(files.back().get(), graph), "a file");
    std::vector<int> fds;
    for (const auto& file : files) fds.push_back(file.get());
    for (const auto& [name, fd] : options.files) {
      message.files.push_back(name);
      fds.push_back(fd);
    }
    const Instant begin = SystemClock().now();
    must(send_packet(socket_.get(), protocol::encode(std::move(message)), fds), "a message");
    receive<protocol::InstanceReady>();
    return microseconds_since(begin);
  }
  void ask(uint64_t instance, const std::string& payload) {
    protocol::Run message;
    message.invocation = {1, instance};
    message.instance = SandboxId(instance);
    message.content_type = "application/octet-stream";
    if (payload.size() <= protocol::kInlinePayload.count) {
      message.payload = payload;
      return must(send_packet(socket_.get(), protocol::encode(std::move(message))), "a message");
    }
    message.payload_attached = true;
    const OwnedFd file(memfd_create("payload", MFD_CLOEXEC));
    must(write_all(file.get(), payload), "a file");
    const int fds[] = {file.get()};
    must(send_packet(socket_.get(), protocol::encode(std::move(message)), fds), "a message");
  }
  double run_us(uint64_t instance, const std::string& payload, std::string* answer,
                double* inside_us) {
    const Instant begin = SystemClock().now();
    ask(instance, payload);
    auto finished = receive<protocol::Finished>();
    const double took_us = microseconds_since(begin);
    if (finished.error) must(*finished.error, "a request");
    *answer = std::move(finished.payload);
    *inside_us = 1e3 * to_milliseconds(finished.objects_time + finished.copy_in_time +
                                       finished.run_time + finished.copy_out_time);
    return took_us;
  }

 private:
  pid_t pid_ = -1;
  OwnedFd socket_;
  std::vector<char> buffer_;
};

}  // namespace lambent::bench
