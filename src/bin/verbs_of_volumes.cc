// lambent volumes.
#include <memory>
#include <string>

#include "bin/lambent_verbs.h"
#include "edge/cli/volumes.h"

namespace lambent::bin {
namespace {

void add_put(Shell& shell, CLI::App& group) {
  auto options = std::make_shared<cli::PutOptions>();
  CLI::App* verb = add_verb(shell, "put", "put a file, or the files of a folder, into a volume",
                            "lambent volumes put weights ./model.safetensors", &group);
  verb->add_option("VOLUME", options->volume, "its name")->required();
  verb->add_option("LOCAL", options->local, "a file or a folder here")->required();
  verb->add_option("PATH", options->path,
                   "where in the volume (default: a file under its name, a folder's files at the "
                   "top)");
  verb->add_flag("--follow-links", options->follow_links,
                 "put what symbolic links lead to, also outside of the folder");
  verb->callback([&shell, options] {
    shell.verb = [&shell, options](Transport& transport, const cli::Destination&) {
      return cli::run_volumes_put(transport, shell.console, *options);
    };
  });
}

void add_get(Shell& shell, CLI::App& group) {
  auto options = std::make_shared<cli::GetOptions>();
  CLI::App* verb = add_verb(shell, "get", "get a file or a folder out of a volume",
                            "lambent volumes get weights model.safetensors", &group);
  verb->add_option("VOLUME", options->volume, "its name")->required();
  verb->add_option("PATH", options->path, "a file or a folder in it; . for all")->required();
  verb->add_option("LOCAL", options->local, "where here (default: the last part of PATH)");
  verb->callback([&shell, options] {
    shell.verb = [&shell, options](Transport& transport, const cli::Destination&) {
      if (options->path == "." && options->local.empty()) options->local = options->volume;
      return cli::run_volumes_get(transport, shell.console, *options);
    };
  });
}

// A verb of a volume and, perhaps, a path in it.
using Run = int (*)(Transport&, cli::Console&, const std::string&, const std::string&);
void add_plain(Shell& shell, CLI::App& verb, bool needs_volume, const char* path_meaning, Run run) {
  auto volume = std::make_shared<std::string>();
  auto path = std::make_shared<std::string>();
  verb.add_option("VOLUME", *volume, "its name")->required(needs_volume);
  if (path_meaning != nullptr) verb.add_option("PATH", *path, path_meaning);
  verb.callback([&shell, volume, path, run] {
    shell.verb = [&shell, volume, path, run](Transport& transport, const cli::Destination&) {
      return run(transport, shell.console, *volume, *path);
    };
  });
}

}  // namespace

void add_volumes(Shell& shell) {
  CLI::App* group = shell.app.add_subcommand(
      "volumes", "files, such as models' weights, that functions see by [[mounts]]");
  group->require_subcommand(1);
  add_plain(shell,
            *add_verb(shell, "ls", "list the volumes, or the files of one",
                      "lambent volumes ls weights", group),
            false, "only those that begin so", cli::run_volumes_ls);
  add_plain(shell,
            *add_verb(shell, "create", "make a volume", "lambent volumes create weights", group),
            true, nullptr,
            [](Transport& transport, cli::Console& console, const std::string& volume,
               const std::string&) { return cli::run_volumes_create(transport, console, volume); });
  add_put(shell, *group);
  add_get(shell, *group);
  add_plain(shell,
            *add_verb(shell, "rm",
                      "remove a file or a folder of a volume, or the volume, which no function may "
                      "mount then",
                      "lambent volumes rm weights old/model.safetensors", group),
            true, "a file or a folder in it (default: the volume itself)", cli::run_volumes_rm);
}

}  // namespace lambent::bin
