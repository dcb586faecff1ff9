// The client's verbs as flags, by subject: each fills its options and says what runs when it was
// chosen. For the files of lambent's command alone.
#pragma once

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <iostream>
#include <string>

#include "bin/lambent_paths.h"
#include "edge/cli/console.h"
#include "edge/cli/transport.h"

#ifndef LAMBENT_VERSION
#define LAMBENT_VERSION "0.0.0"
#endif

namespace lambent::bin {

using cli::Console;
using cli::Transport;

// What all verbs share, and the one that was chosen.
struct Shell {
  CLI::App app{
      "Lambent: functions on GPUs.\n\n"
      "  lambent serve &           a worker on this machine\n"
      "  lambent init hello        a function to begin with, in the folder hello\n"
      "  lambent deploy hello\n"
      "  lambent invoke hello",
      "lambent"};
  std::string endpoint = default_endpoint();
  tls::CredentialFiles credentials = default_credentials();  // for https
  Console console{std::cout, std::cerr, false, isatty(STDERR_FILENO) != 0};
  // Runs the chosen verb; the endpoint is parsed already.
  std::function<int(Transport&, const http::Endpoint&)> verb;
};

// Where the worker is, and what https to it needs.
void add_endpoint_options(Shell& shell, CLI::App& app);
// With the options that all verbs have.
CLI::App* add_verb(Shell& shell, const char* name, const char* what, const std::string& example);

// Functions.
void add_init(Shell& shell);
void add_deploy(Shell& shell);
void add_invoke(Shell& shell);
void add_result(Shell& shell);
void add_logs(Shell& shell);
void add_rm(Shell& shell);
void add_objects(Shell& shell);

// The worker.
void add_listing(Shell& shell);
void add_devices(Shell& shell);
void add_why(Shell& shell);

// Workloads.
void add_replay(Shell& shell);
void add_load(Shell& shell);
void add_calibrate(Shell& shell);
void add_report(Shell& shell);

// Pipelines.
void add_profile(Shell& shell);
void add_plan(Shell& shell);

}  // namespace lambent::bin
