// Host code that was made of PTX, kept in a folder by its whole key, so that each is compiled once
// on this machine, whatever processes ask. A value of one call; used by ptx_compiler.cc, any thread
// and any number of processes at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lambent::emulated_cuda {

class CodeCache {
 public:
  // Makes the folder if it is not there. One that others can write to or replace is not used: what
  // lies in it is run. `most_bytes`: what the entries may have together.
  CodeCache(const std::string& folder, uint64_t most_bytes);

  bool is_usable() const { return usable_; }
  const std::string& why_not() const { return why_not_; }  // empty if none is wanted
  const std::string& folder() const { return folder_; }

  // None if there is no entry of exactly this key, or a damaged one.
  std::optional<std::vector<char>> find(const std::string& key) const;
  // Replaces the entry and removes those that were not used for the longest time, as far as the
  // limit asks for it. What cannot be written is not kept.
  void keep(const std::string& key, const std::vector<char>& code) const;

  // Held by one thread of one process at a time for each key: a file that is locked, and goes with
  // the turn. Waits for at most so long, and then goes on without it.
  class Turn {
   public:
    Turn(const CodeCache& cache, const std::string& key, int most_wait_s);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    std::string path_;
    int fd_ = -1;  // locked
  };

 private:
  std::string path_of(const std::string& key) const;
  void make_room() const;

  std::string folder_;
  uint64_t most_bytes_;
  bool usable_ = false;
  std::string why_not_;
};

}  // namespace lambent::emulated_cuda
