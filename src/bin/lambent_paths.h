// Where the command finds its neighbours: its own folder, shared data, the worker's address. Reads
// the environment and /proc; used by the mains, once, at start.
#pragma once

#include <string>

#include "core/tls/credentials.h"

namespace lambent::bin {

// The folder that this program lies in.
std::string own_folder();
// share/... of an installation (beside bin/) or of a source tree (above build/KIND/bin); empty if
// there is no such file.
std::string find_shared(const std::string& name);
// The folder of a built example, in an installation or a build; empty if it is not built.
std::string find_example(const std::string& name);
// Of a worker that this user starts: /var/lib/lambent for root, else below the home folder.
std::string default_state_folder();
// LAMBENT_ENDPOINT, else the socket of a worker on this machine if there is one, else
// http://127.0.0.1:8980.
std::string default_endpoint();
// Where 'lambent config' keeps its contexts: LAMBENT_CONFIG, else config.toml below
// XDG_CONFIG_HOME or ~/.config.
std::string config_path();
std::string environment_context();  // LAMBENT_CONTEXT; empty: none
bool has_environment_endpoint();    // LAMBENT_ENDPOINT says where the worker is
// Of what is fetched and not deployed yet: lambent/models below XDG_CACHE_HOME or ~/.cache.
std::string model_cache();
// How https is spoken to a worker: LAMBENT_CA, LAMBENT_CLIENT_CERTIFICATE and LAMBENT_CLIENT_KEY.
tls::CredentialFiles default_credentials();

}  // namespace lambent::bin
