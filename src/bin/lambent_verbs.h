// The client's verbs as flags, by subject: each fills its options and says what runs when it was
// chosen. Only for the files of lambent's command.
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
  // Where the worker is, and what it takes to ask it: as the flags say, until resolve_destination()
  // has filled in what they leave open.
  std::string endpoint;
  tls::CredentialFiles credentials;  // for https
  std::string context;
  Console console{std::cout, std::cerr, false, isatty(STDERR_FILENO) != 0};
  std::string token_file;
  std::string tenant;
  // Whether `tenant` is sent as the one for whom the request is made.
  bool sends_tenant = true;
  // Runs the chosen verb; endpoint and token are read already.
  std::function<int(Transport&, const cli::Destination&)> verb;
  // Instead of it: a verb that asks no worker.
  std::function<int()> local_verb;
};

// Where the worker is, what https to it needs, and as whom it is asked: of every verb.
void add_destination(Shell& shell, CLI::App& app);
// With the options that all verbs have; below `group` if there is one.
CLI::App* add_verb(Shell& shell, const char* name, const char* what, const std::string& example,
                   CLI::App* group = nullptr);

// Functions.
void add_init(Shell& shell);
void add_deploy(Shell& shell);
void add_publish(Shell& shell);
void add_versions(Shell& shell);
void add_alias(Shell& shell);
void add_rollback(Shell& shell);  // and revisions
void add_invoke(Shell& shell);
void add_result(Shell& shell);
void add_logs(Shell& shell);
void add_rm(Shell& shell);
void add_objects(Shell& shell);

// The worker.
void add_listing(Shell& shell);
void add_describe(Shell& shell);
void add_invocations(Shell& shell);  // and cancel
void add_top(Shell& shell);
void add_config(Shell& shell);
void add_devices(Shell& shell);
void add_cluster(Shell& shell);
void add_why(Shell& shell);

// Who may use it.
void add_tenants(Shell& shell);
void add_tokens(Shell& shell);
void add_doctor(Shell& shell);
void add_whoami(Shell& shell);
void add_audit(Shell& shell);
void add_secrets(Shell& shell);

// What functions see beside their code.
void add_volumes(Shell& shell);

// A worker's state folder.
void add_backup(Shell& shell);  // and restore

// Workloads.
void add_replay(Shell& shell);
void add_load(Shell& shell);
void add_calibrate(Shell& shell);
void add_report(Shell& shell);

// Pipelines.
void add_profile(Shell& shell);
void add_plan(Shell& shell);

}  // namespace lambent::bin
