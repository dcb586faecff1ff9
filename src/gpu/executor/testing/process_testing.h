// ExecutorProcess: a real lambent-executor on an emulated device of its own, and the worker's end
// of its socket. Included by tests only; one thread, which waits for what it expects.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <deque>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/packet.h"
#include "core/base/sealed_memory.h"
#include "core/base/testing/testing.h"
#include "core/protocol/executor_message.h"
#include "gpu/executor/file_io.h"

// Given by the build; a header must compile without.
#ifndef LAMBENT_BINARY_DIR
#define LAMBENT_BINARY_DIR "build"
#endif

namespace lambent::executor {

using Files = std::map<std::string, std::string>;  // content by path in a package

// The files of a bundle, as those of a package below this name.
inline void add_bundle(Files& files, const std::string& folder, const std::string& name) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    auto content = read_file(entry.path(), size_t{1} << 28);
    CHECK(content.ok(), "a built bundle can be read");
    files[name + "/" + entry.path().lexically_relative(folder).string()] = *content;
  }
}

struct Received {
  protocol::ExecutorMessage message;
  std::vector<OwnedFd> fds;
};

class ExecutorProcess {
 public:
  // With these variables of the environment, and more words on the command line.
  explicit ExecutorProcess(const std::vector<std::pair<std::string, std::string>>& settings = {},
                           const std::vector<std::string>& more = {}) {
    const std::string path = folder_ / "socket";
    auto listening = listen_packets(path, 0600);
    CHECK(listening.ok(), "a test can listen");
    std::vector<std::string> environment = {"LD_LIBRARY_PATH=" LAMBENT_BINARY_DIR "/lib/emulated",
                                            "EMULATED_CUDA_NODE=" + (folder_ / "node"),
                                            "EMULATED_CUDA_CONFIG=tiny"};
    for (const auto& [name, value] : settings) {
      std::erase_if(environment, [&](const auto& each) { return each.starts_with(name + "="); });
      environment.push_back(name + "=" + value);
    }
    std::vector<char*> variables;
    for (auto& each : environment) variables.push_back(each.data());
    variables.push_back(nullptr);
    std::vector<std::string> words = {LAMBENT_BINARY_DIR "/bin/lambent-executor", "--socket", path};
    words.insert(words.end(), more.begin(), more.end());
    std::vector<char*> arguments;
    for (auto& each : words) arguments.push_back(each.data());
    arguments.push_back(nullptr);
    CHECK(
        posix_spawn(&pid_, arguments[0], nullptr, nullptr, arguments.data(), variables.data()) == 0,
        "lambent-executor is built");
    pollfd waiting = {listening->get(), POLLIN, 0};
    CHECK(poll(&waiting, 1, 30'000) == 1, "lambent-executor connects");
    socket_ = OwnedFd(accept4(listening->get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    CHECK(socket_.valid(), "a connection");
  }
  ~ExecutorProcess() {
    socket_.reset();
    if (pid_ > 0) wait_for_exit();
  }
  ExecutorProcess(const ExecutorProcess&) = delete;
  ExecutorProcess& operator=(const ExecutorProcess&) = delete;

  int wait_for_exit() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return status;
  }
  // For a test that fails: how it is, and what it said of its end.
  std::string state() {
    std::string text = "the executor runs";
    siginfo_t end{};
    if (pid_ <= 0 ||
        (waitid(P_PID, static_cast<id_t>(pid_), &end, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         end.si_pid != 0)) {
      text = "the executor has ended: " + std::to_string(end.si_code) + ", " +
             std::to_string(end.si_status);
    }
    std::vector<char> buffer(protocol::kExecutorMessage.count);
    for (pollfd ready = {socket_.get(), POLLIN, 0}; poll(&ready, 1, 0) == 1;) {
      auto packet = receive_packet(socket_.get(), buffer);
      if (!packet.ok() || !*packet) break;
      auto message = protocol::decode_executor_message({buffer.data(), (*packet)->size});
      const auto* broken = message.ok() ? std::get_if<protocol::Broken>(&*message) : nullptr;
      if (broken != nullptr) text += "; it said: " + to_string(broken->error);
    }
    return text;
  }
  int socket() const { return socket_.get(); }
  // How many descriptors the executor has open, and threads.
  size_t open_files() const { return entries_in("fd"); }
  size_t threads() const { return entries_in("task"); }

  void send(protocol::ExecutorMessage message, const std::vector<int>& fds = {}) {
    const auto sent = send_packet(socket_.get(), protocol::encode(std::move(message)), fds);
    EXPECT_TRUE(sent.ok()) << to_string(sent.error());
  }
  // The next message; none if the executor has ended.
  std::optional<Received> receive() {
    std::vector<char> buffer(protocol::kExecutorMessage.count);
    for (;;) {
      pollfd waiting = {socket_.get(), POLLIN, 0};
      if (poll(&waiting, 1, 60'000) != 1) return std::nullopt;
      auto packet = receive_packet(socket_.get(), buffer);
      if (!packet.ok()) return std::nullopt;
      if (!*packet) continue;
      auto message = protocol::decode_executor_message({buffer.data(), (*packet)->size});
      EXPECT_TRUE(message.ok());
      if (!message.ok()) return std::nullopt;
      const auto* written = std::get_if<protocol::ObjectWritten>(&*message);
      if (written != nullptr && !written->error && takes_objects) send(*written);
      return Received{std::move(*message), std::move((*packet)->fds)};
    }
  }
  // Kept objects that are written: the worker has them.
  bool takes_objects = true;
  // The next message of this kind; those of others wait.
  template <typename Message>
  std::optional<Message> expect(std::vector<OwnedFd>* fds = nullptr) {
    for (auto each = early_.begin(); each != early_.end(); ++each) {
      if (!std::holds_alternative<Message>(each->message)) continue;
      Message message = std::get<Message>(std::move(each->message));
      if (fds != nullptr) *fds = std::move(each->fds);
      early_.erase(each);
      return message;
    }
    for (;;) {
      auto received = receive();
      if (!received) {
        ADD_FAILURE() << "the executor has ended, or says nothing";
        return std::nullopt;
      }
      if (auto* message = std::get_if<Message>(&received->message)) {
        if (fds != nullptr) *fds = std::move(received->fds);
        return std::move(*message);
      }
      early_.push_back(std::move(*received));
    }
  }

  // A package as a folder, so that instances of it open the same files.
  std::string package(const Files& files) {
    const std::string root = folder_ / ("package-" + std::to_string(packages_++));
    for (const auto& [name, content] : files) {
      const std::filesystem::path path = std::filesystem::path(root) / name;
      std::filesystem::create_directories(path.parent_path());
      CHECK(write_file_atomically(path, content, false).ok(), "a test can write");
    }
    return root;
  }
  void add_instance(uint64_t instance, const std::string& package, Bytes memory,
                    bool modelled = false, uint32_t share = 100) {
    protocol::AddInstance message;
    message.instance = SandboxId(instance);
    message.graph = "graph.json";
    message.memory = memory;
    message.modelled = modelled;
    message.share = share;
    std::vector<OwnedFd> files;
    std::vector<int> fds;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(package)) {
      if (!entry.is_regular_file()) continue;
      message.files.push_back(entry.path().lexically_relative(package).string());
    }
    std::sort(message.files.begin(), message.files.end());
    for (const auto& name : message.files) {
      files.emplace_back(open((package + "/" + name).c_str(), O_RDONLY | O_CLOEXEC));
      fds.push_back(files.back().get());
    }
    send(std::move(message), fds);
  }
  void run(uint64_t invocation, uint64_t instance, const std::string& payload,
           const std::string& content_type = "application/octet-stream") {
    protocol::Run message;
    message.invocation = {7, invocation};
    message.instance = SandboxId(instance);
    message.content_type = content_type;
    if (payload.size() <= protocol::kInlinePayload.count) {
      message.payload = payload;
      return send(std::move(message));
    }
    message.payload_attached = true;
    auto file = sealed_memory(payload);
    CHECK(file.ok(), "a test has memory");
    send(std::move(message), {file->get()});
  }
  // What a Finished has answered, wherever it lies.
  static std::string payload_of(const protocol::Finished& finished,
                                const std::vector<OwnedFd>& fds) {
    if (!finished.payload_attached) return finished.payload;
    return content_of(fds.at(0).get());
  }
  static std::string content_of(int fd) {
    std::string content(static_cast<size_t>(lseek(fd, 0, SEEK_END)), '\0');
    CHECK(read_fully(fd, 0, content.data(), content.size()).ok(), "a file can be read");
    return content;
  }
  // Answers the next OpenObject.
  ObjectId give_object(const TensorType& type, const std::string& content) {
    const auto asked = expect<protocol::OpenObject>();
    if (!asked) return {};
    auto file = sealed_memory(content);
    CHECK(file.ok(), "a test has memory");
    send(protocol::ObjectOpened{asked->object, std::nullopt, type}, {file->get()});
    return asked->object;
  }

 private:
  size_t entries_in(const std::string& folder) const {
    const std::filesystem::directory_iterator all("/proc/" + std::to_string(pid_) + "/" + folder);
    return static_cast<size_t>(std::distance(begin(all), end(all)));
  }

  TemporaryFolder folder_;
  pid_t pid_ = -1;
  OwnedFd socket_;
  std::deque<Received> early_;
  int packages_ = 0;
};

}  // namespace lambent::executor
