// lambent cluster: the nodes that answer for each other.
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "bin/flag_checks.h"
#include "bin/lambent_verbs.h"
#include "edge/cli/cluster.h"

namespace lambent::bin {

void add_cluster(Shell& shell) {
  CLI::App* group =
      shell.app.add_subcommand("cluster", "the nodes that answer for each other, and their load");
  group->require_subcommand(1);
  add_verb(shell, "ls", "list the nodes, as the one that is asked sees them", "lambent cluster ls",
           group)
      ->callback([&shell] {
        shell.verb = [&shell](Transport& transport, const cli::Destination&) {
          return cli::run_cluster_ls(transport, shell.console);
        };
      });
  const auto add_change = [&shell, group](const char* name, const char* what, const char* example) {
    auto options = std::make_shared<cli::ClusterDrainOptions>();
    options->sleep = [](Duration time) { std::this_thread::sleep_for(time); };
    CLI::App* verb = add_verb(shell, name, what, example, group);
    verb->add_option("NODE", options->node, "its name")->required();
    return std::pair(verb, options);
  };
  const auto [drain, drained] =
      add_change("drain",
                 "give a node no more work: what it has ends there, and what its clients send goes "
                 "to others. A restart ends it",
                 "lambent cluster drain gpu2 --wait 60");
  auto wait = std::make_shared<double>(0);
  drain->add_option("--wait", *wait, "seconds to wait until it has no work")
      ->check(within(0.0, 86400.0));
  drain->callback([&shell, options = drained, wait] {
    options->wait = from_seconds(*wait);
    shell.verb = [&shell, options](Transport& transport, const cli::Destination&) {
      return cli::run_cluster_drain(transport, shell.console, *options);
    };
  });
  const auto [undrain, undrained] =
      add_change("undrain", "give a node work again", "lambent cluster undrain gpu2");
  undrain->callback([&shell, options = undrained] {
    options->drain = false;
    shell.verb = [&shell, options](Transport& transport, const cli::Destination&) {
      return cli::run_cluster_drain(transport, shell.console, *options);
    };
  });
}

}  // namespace lambent::bin
