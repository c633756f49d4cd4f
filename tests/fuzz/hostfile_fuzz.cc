// Lists of hosts that others wrote: MLX's and MPI's files, and the argument of --hosts.
//
// Hostile: the text. It comes from other programs and other people, and its names end up on ssh's
// command line and in the configurations of daemons.
// Read by: ParseHostfile, ParseHostList (client/ctl/hosts/hostfile.h), MakeConfigs, ImportedJson
// (client/ctl/hosts/imported_config.h).
//
// Must hold:
//   - an accepted name is no option of ssh and contains nothing that a shell interprets; there are
//     at most kHostsMax hosts, with 0 to kSlotsMax slots each;
//   - our own file of an accepted list is read again, and says the same;
//   - a configuration made from it is one that the daemon's parser accepts, with the node's name,
//     at least one address to listen on, and the cluster and key that were asked for;
//   - all nodes of a list are joined: each but the first connects to another, or another to it;
//   - a refusal is an invalid argument that names the file.
//
// Script: a byte of options (how links are made; whether it is a list or a file), then the text; or,
// for deep nesting, pieces of text that are repeated: their size, how often, and the bytes.
#include <map>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "client/ctl/hosts/hostfile.h"
#include "client/ctl/hosts/imported_config.h"
#include "daemon/process/config_file.h"
#include "tests/fuzz/fuzz.h"

namespace mlxcomm::ctl {
namespace {

using fuzz::Input;

constexpr char kPath[] = "hosts";
// Larger lists take long to write and to read again, and show nothing new.
constexpr std::size_t kWrittenMax = 256;
// Each node of a cluster needs a configuration with the addresses of all.
constexpr std::size_t kConfiguredMax = 24;

void CheckName(const std::string& name) {
  MLXCOMM_MUST(!name.empty() && name.size() <= 255 && name.front() != '-',
               "a host's name is no option of ssh: " + name);
  MLXCOMM_MUST(name.find_first_of(" \"'`$;&<>|(){}[]/\n\t\r") == std::string::npos,
               "a host's name has nothing that a shell would run: " + name);
  const std::string host = name.substr(name.rfind('@') + 1);
  MLXCOMM_MUST(!host.empty() && host.front() != '-', "behind the user stands a host: " + name);
}

void CheckHosts(const Hostfile& file) {
  MLXCOMM_MUST(!file.hosts.empty() && file.hosts.size() <= kHostsMax,
               "there are hosts, not too many");
  for (const HostEntry& host : file.hosts) {
    MLXCOMM_MUST(host.slots <= kSlotsMax, "a host has ranks in bounds: " + host.name);
    CheckName(host.name);
  }
}

void CheckSameAgain(const Hostfile& file) {
  const std::string json = HostfileJson(file);
  Hostfile again;
  const Failure failure = ParseHostfile(kPath, json, again);
  MLXCOMM_MUST(failure.ok(), "our own file is read: " + failure.message + "\n" + json);
  MLXCOMM_MUST(again.backend == file.backend && again.envs == file.envs &&
                   again.hosts.size() == file.hosts.size(),
               "our own file says the same:\n" + json);
  for (std::size_t i = 0; i < file.hosts.size(); ++i) {
    const HostEntry& one = file.hosts[i];
    const HostEntry& other = again.hosts[i];
    MLXCOMM_MUST(one.name == other.name && one.ips == other.ips && one.rdma == other.rdma &&
                     one.slots == other.slots,
                 "our own file says the same of " + one.name + ":\n" + json);
  }
}

// Who listens where, and who dials whom: the graph must be connected.
void CheckJoined(const std::vector<v1::DaemonConfig>& configs) {
  std::map<std::string, std::size_t> listeners;
  for (std::size_t i = 0; i < configs.size(); ++i) {
    for (const std::string& address : configs[i].peers().listen()) listeners[address] = i;
  }
  std::vector<std::size_t> part(configs.size());
  for (std::size_t i = 0; i < part.size(); ++i) part[i] = i;
  const auto join = [&](std::size_t a, std::size_t b) {
    const std::size_t from = part[a];
    const std::size_t to = part[b];
    std::replace(part.begin(), part.end(), from, to);
  };
  for (std::size_t i = 0; i < configs.size(); ++i) {
    for (const std::string& address : configs[i].peers().connect()) {
      const auto found = listeners.find(address);
      MLXCOMM_MUST(found != listeners.end(), "somebody listens where others connect: " + address);
      join(i, found->second);
    }
  }
  // Hosts that share an address have a listener too few here, not a link too few.
  std::set<std::string> addresses;
  std::size_t named = 0;
  for (const v1::DaemonConfig& config : configs) {
    addresses.insert(config.peers().listen().begin(), config.peers().listen().end());
    named += static_cast<std::size_t>(config.peers().listen_size());
  }
  if (addresses.size() != named) return;
  MLXCOMM_MUST(
      std::count(part.begin(), part.end(), part[0]) == static_cast<std::ptrdiff_t>(part.size()),
      "all nodes of a list are joined");
}

void CheckConfigs(const Hostfile& file, const ImportOptions& options) {
  std::vector<ImportedConfig> made;
  const Failure failure = MakeConfigs(file, options, made);
  if (!failure.ok()) {
    MLXCOMM_MUST(
        failure.code == FailureCode::kInvalidArgument && failure.message.starts_with(kPath),
        "a refusal names the file: " + failure.message);
    return;
  }
  std::set<std::string> names;
  std::vector<v1::DaemonConfig> configs;
  for (const ImportedConfig& one : made) {
    MLXCOMM_MUST(names.insert(one.node_name).second,
                 "a node has one configuration: " + one.node_name);
    const absl::StatusOr<v1::DaemonConfig> config = ParseConfig(one.text, "made");
    MLXCOMM_MUST(config.ok(), "a configuration that was made is accepted: " +
                                  std::string(config.status().message()) + "\n" + one.text);
    MLXCOMM_MUST(config->node_name() == one.node_name, "a node keeps its name:\n" + one.text);
    MLXCOMM_MUST(config->peers().listen_size() > 0, "a node listens:\n" + one.text);
    MLXCOMM_MUST(config->cluster() == (options.cluster.empty() ? "default" : options.cluster) &&
                     config->peers().key_file() == options.key_file,
                 "cluster and key are those that were asked for:\n" + one.text);
    configs.push_back(*config);
  }
  CheckJoined(configs);
  MLXCOMM_MUST(!ImportedJson(file, options.links, {"made"}).empty(), "programs are told as well");
}

// At most this much, and 65535 times a piece.
constexpr std::size_t kRepeatedBytesMax = 128 * 1024;

std::string TakeRepeated(Input& input) {
  std::string text;
  while (!input.empty()) {
    const std::size_t bytes = input.TakeByte();
    const auto times = input.Take<std::uint16_t>();
    const std::string piece = input.TakeText(bytes);
    for (std::uint32_t i = 0; i < times && text.size() < kRepeatedBytesMax; ++i) text += piece;
  }
  return text;
}

}  // namespace
}  // namespace mlxcomm::ctl

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  using namespace mlxcomm::ctl;  // NOLINT
  mlxcomm::fuzz::Input input(data, bytes);
  const std::uint8_t how = input.TakeByte();
  const bool is_list = (how & 4) != 0;
  const std::string text = (how & 0xE0) == 0x20 ? TakeRepeated(input) : input.TakeRest();
  Hostfile file;
  const mlxcomm::Failure failure =
      is_list ? ParseHostList(kPath, text, file) : ParseHostfile(kPath, text, file);
  if (!failure.ok()) {
    MLXCOMM_MUST(failure.code == mlxcomm::FailureCode::kInvalidArgument &&
                     failure.message.starts_with(kPath),
                 "a refusal names the file: " + failure.message);
    return 0;
  }
  CheckHosts(file);
  if (file.hosts.size() <= kWrittenMax) CheckSameAgain(file);
  if (file.hosts.size() > kConfiguredMax) return 0;
  constexpr const char* kLinks[] = {"", "ring", "all", ""};
  CheckConfigs(file, {.path = kPath,
                      .cluster = (how & 8) != 0 ? "lab" : "",
                      .key_file = "/key",
                      .port = static_cast<std::uint16_t>((how & 16) != 0 ? 1 : 7470),
                      .links = kLinks[how & 3]});
  return 0;
}
