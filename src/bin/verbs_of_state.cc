// Verbs of lambent about a worker's state folder on this machine; they need no worker.
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "bin/lambent_verbs.h"
#include "bin/state_backup.h"

namespace lambent::bin {
namespace {

// The exit code; says where the result lies.
int tell(Console& console, const Result<void>& result, const std::string& folder) {
  if (!result.ok()) return cli::fail(console, result.error());
  if (console.json) {
    console.out << nlohmann::json({{"folder", folder}}).dump() << "\n";
  } else {
    console.out << folder << "\n";
  }
  return 0;
}

// What functions mount is missing after such a restore.
void tell_of_volumes(Console& console, const std::string& state) {
  std::error_code ignored;
  const std::string volumes = state + "/volumes";
  if (std::filesystem::is_empty(volumes, ignored) || ignored) return;
  console.err << "lambent: volumes are not in this backup; put their files again after a restore, "
                 "or copy "
              << volumes << " to the restored state with 'cp -a'\n";
}

struct Folders {
  std::string state;
  std::string backup;
  bool without_volumes = false;
};

}  // namespace

void add_backup(Shell& shell) {
  auto folders = std::make_shared<Folders>();
  CLI::App* backup =
      add_verb(shell, "backup", "copy a worker's state to a new folder, while the worker runs",
               "lambent backup --state /var/lib/lambent /backup/lambent-2026-11-28");
  backup->add_option("--state", folders->state, "the worker's state folder")->required();
  backup->add_option("TO", folders->backup, "the folder to be made")->required();
  backup->add_flag("--without-volumes", folders->without_volumes,
                   "leave the files of volumes out, which may be large");
  backup->callback([&shell, folders] {
    shell.verb = [&shell, folders](Transport&, const cli::Destination&) {
      const auto done =
          back_up_state(folders->state, folders->backup, {.volumes = !folders->without_volumes});
      if (done.ok() && folders->without_volumes) tell_of_volumes(shell.console, folders->state);
      return tell(shell.console, done, folders->backup);
    };
  });
  CLI::App* restore =
      add_verb(shell, "restore", "make a state folder from a backup, before a worker is started",
               "lambent restore --state /var/lib/lambent /backup/lambent-2026-11-28");
  restore->add_option("--state", folders->state, "the folder to be made")->required();
  restore->add_option("FROM", folders->backup, "the backup")->required();
  restore->callback([&shell, folders] {
    shell.verb = [&shell, folders](Transport&, const cli::Destination&) {
      return tell(shell.console, restore_state(folders->backup, folders->state), folders->state);
    };
  });
}

}  // namespace lambent::bin
