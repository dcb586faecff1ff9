// Verbs of lambent about a worker: what it has, its devices, and why something waited.
#include "bin/lambent_verbs.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <memory>
#include <utility>

#include "bin/flag_checks.h"
#include "bin/lambent_paths.h"
#include "bin/machine_facts.h"
#include "edge/cli/devices.h"
#include "edge/cli/doctor.h"
#include "edge/cli/listing.h"
#include "edge/cli/top.h"
#include "edge/cli/why.h"

namespace lambent::bin {
namespace {

// Lines and columns; zeros where nothing tells.
std::pair<size_t, size_t> terminal_size() {
  struct winsize size {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return {0, 0};
  return {size.ws_row, size.ws_col};
}

}  // namespace

void add_listing(Shell& shell) {
  add_verb(shell, "ls", "list the functions", "lambent ls --json")->callback([&shell] {
    shell.verb = [&shell](Transport& transport, const cli::Destination&) {
      return cli::run_ls(transport, shell.console);
    };
  });
  add_verb(shell, "ps", "list the sandboxes", "lambent ps")->callback([&shell] {
    shell.verb = [&shell](Transport& transport, const cli::Destination&) {
      return cli::run_ps(transport, shell.console);
    };
  });
  add_verb(shell, "schedules", "list when functions are invoked by themselves", "lambent schedules")
      ->callback([&shell] {
        shell.verb = [&shell](Transport& transport, const cli::Destination&) {
          return cli::run_schedules(transport, shell.console);
        };
      });
  add_verb(shell, "version", "the versions of this program and of the worker", "lambent version")
      ->callback([&shell] {
        shell.verb = [&shell](Transport& transport, const cli::Destination&) {
          return cli::run_version(transport, shell.console, LAMBENT_VERSION);
        };
      });
}

void add_devices(Shell& shell) {
  add_verb(shell, "devices", "list the GPUs, how they are and why they get no work",
           "lambent devices")
      ->callback([&shell] {
        shell.verb = [&shell](Transport& transport, const cli::Destination&) {
          return cli::run_devices(transport, shell.console);
        };
      });
  const auto add_change = [&shell](const char* name, const char* what, const char* example) {
    auto options = std::make_shared<cli::DrainOptions>();
    CLI::App* verb = add_verb(shell, name, what, example);
    verb->add_option(
            "GPU", options->gpu,
            "as 'lambent devices' shows it, or how its UUID begins; a GPU that is cut: all "
            "of its instances")
        ->required();
    verb->callback([&shell, options] {
      shell.verb = [&shell, options](Transport& transport, const cli::Destination&) {
        return cli::run_drain(transport, shell.console, *options);
      };
    });
    return std::pair(verb, options);
  };
  const auto [drain, why] = add_change(
      "drain", "give a GPU no more work: what runs there ends, and what is idle is stopped",
      "lambent drain 0 --reason 'new firmware'");
  drain->add_option("--reason", why->reason, "shown wherever devices are listed");
  add_change("undrain", "give a GPU work again, and accept the errors that are known of it",
             "lambent undrain 0")
      .second->drain = false;
}

void add_top(Shell& shell) {
  auto options = std::make_shared<cli::TopOptions>();
  auto every_s = std::make_shared<double>(1);
  CLI::App* verb = add_verb(shell, "top", "show GPUs, functions and the queue, again each second",
                            "lambent top");
  verb->add_option("--every", *every_s, "seconds between two looks")
      ->check(within(0.1, 3600.0))
      ->capture_default_str();
  verb->add_option("--times", options->times,
                   "how often, then it ends (default: in a terminal until it is interrupted, else "
                   "once)");
  verb->callback([&shell, options, every_s] {
    options->every = from_seconds(*every_s);
    options->live = !shell.console.json && isatty(STDOUT_FILENO) != 0;
    if (options->times == 0 && !options->live) options->times = 1;
    options->size = terminal_size;
    shell.verb = [&shell, options](Transport& transport, const cli::Destination&) {
      return cli::run_top(transport, shell.console, *options);
    };
  });
}

void add_doctor(Shell& shell) {
  auto state = std::make_shared<std::string>(default_state_folder());
  CLI::App* verb =
      add_verb(shell, "doctor",
               "show what this machine has for a worker, what it lacks, and what to do about it",
               "lambent doctor");
  verb->add_option("--state", *state, "the state folder that the worker is to have")
      ->capture_default_str();
  auto driver = std::make_shared<std::string>();
  verb->add_option("--nvidia-driver", *driver,
                   "folder of NVIDIA's libcuda.so.1, if it is not found");
  verb->callback([&shell, state, driver] {
    shell.verb = [&shell, state, driver](Transport& transport, const cli::Destination&) {
      return cli::show_findings(shell.console, cli::findings_of(find_machine_facts(
                                                   *state, *driver, transport, shell.endpoint)));
    };
  });
}

// With --journal it is another program's (lambent.cc).
void add_why(Shell& shell) {
  auto invocation = std::make_shared<std::string>();
  auto journal = std::make_shared<std::string>();
  CLI::App* verb =
      add_verb(shell, "why",
               "show where an invocation's time went, what it waited for, and what went before it",
               "lambent why 0e6c9d1e-4f2c-4c33-9a52-6f1b1b3f0f7a");
  verb->add_option("INVOCATION", *invocation,
                   "its id, as 'lambent invoke' prints it; or a function: the slowest of its last "
                   "(default: the slowest of all functions' last)");
  verb->add_option("--journal", *journal,
                   "instead of the worker's own: the journal's folder, or one segment of it");
  verb->callback([&shell, invocation, journal] {
    shell.verb = [&shell, invocation, journal](Transport& transport, const cli::Destination&) {
      if (!journal->empty()) {
        return cli::fail(shell.console,
                         {ErrorCode::kInvalidArgument,
                          "a journal is read without a worker, by another program: give no option "
                          "before the verb (lambent why INVOCATION --journal FOLDER)"});
      }
      return cli::run_why(transport, shell.console, *invocation);
    };
  });
}

}  // namespace lambent::bin
