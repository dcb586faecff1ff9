// Where a sandbox's program listens, and what is wrong with it where that is not where the contract
// of HTTP functions has it. listening_places() is pure; any thread.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "core/domain/function.h"

namespace lambent::worker {

// "127.0.0.1:5000", "[::1]:8080", of a table as the kernel writes it (/proc/PID/net/tcp and tcp6),
// in its order, each once. Lines that make no sense are skipped.
std::vector<std::string> listening_places(std::string_view table);

// Of the network of a process, without what is ours there; empty if it has gone.
std::vector<std::string> listening_places_of(pid_t pid);

// Why a program that listens at `places` is not ready, such as "the program does not listen on
// 127.0.0.1, port 8080 (its PORT), but on 127.0.0.1:5000".
std::string why_not_ready(const HttpContract& http, const std::vector<std::string>& places);

}  // namespace lambent::worker
