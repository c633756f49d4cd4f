// The daemon's configuration file.
//
// Hostile: its text. Its author owns the daemon, but it is edited by hand, and made by programs
// from the files of others (hostfile_fuzz.cc).
// Read by: ParseConfig (daemon/process/config_file.h) on protobuf's text format. It reads no other
// file: ReadConfigFile, which checks the named key file, is left out.
//
// Must hold:
//   - an accepted text keeps every bound that config.proto states, which are written here again,
//     and has all defaults filled in;
//   - printed as text it is accepted again, and is the same;
//   - a refusal has one line for each mistake, "FILE:LINE:COLUMN: ...", and the text has that line.
//
// Input: the text itself.
#include <arpa/inet.h>
#include <sys/un.h>

#include <vector>

#include <google/protobuf/stubs/common.h>
#include <google/protobuf/text_format.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/process/config_file.h"
#include "proto/types/plain_text.h"
#include "tests/fuzz/fuzz.h"

namespace mlxcomm::config_fuzz {
namespace {

constexpr char kName[] = "config";

bool IsWithin(std::uint64_t value, std::uint64_t least, std::uint64_t most) {
  return value >= least && value <= most;
}

bool IsName(const std::string& name) { return IsWithin(name.size(), 1, 63) && IsPlainText(name); }

// "HOST:PORT" or "[HOST]:PORT"; false: it is neither.
bool Split(const std::string& address, std::string& host, std::uint64_t& port) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon + 1 == address.size()) return false;
  if (address.find_first_not_of("0123456789", colon + 1) != std::string::npos) return false;
  port = std::strtoull(address.c_str() + colon + 1, nullptr, 10);
  host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  return true;
}

struct Address {
  bool is_numeric = false;
  bool is_loopback = false;
  bool is_link_local = false;  // And it names no interface.
};

Address AddressOf(const std::string& host) {
  in_addr four{};
  in6_addr six{};
  if (::inet_pton(AF_INET, host.c_str(), &four) == 1) {
    return {true, (ntohl(four.s_addr) >> 24) == 127, false};
  }
  const std::size_t percent = host.find('%');
  if (::inet_pton(AF_INET6, host.substr(0, percent).c_str(), &six) != 1) return {};
  const bool has_interface = percent != std::string::npos && percent + 1 < host.size();
  return {true, !has_interface && IN6_IS_ADDR_LOOPBACK(&six),
          !has_interface && IN6_IS_ADDR_LINKLOCAL(&six)};
}

void CheckAddress(const std::string& text, bool any_port, bool numeric) {
  std::string host;
  std::uint64_t port = 0;
  MLXCOMM_MUST(Split(text, host, port) && !host.empty(),
               "an address has a host and a port: " + text);
  MLXCOMM_MUST(IsWithin(port, any_port ? 0 : 1, 65535), "a port is one that there may be: " + text);
  MLXCOMM_MUST(IsPlainText(text), "an address is plain text, for it goes into status: " + text);
  const Address address = AddressOf(host);
  MLXCOMM_MUST(!numeric || address.is_numeric, "this machine's address is no name: " + text);
  MLXCOMM_MUST(!address.is_link_local, "a link-local address names its interface: " + text);
}

void CheckPeers(const v1::PeerConfig& peers) {
  for (const std::string& text : peers.listen()) CheckAddress(text, true, true);
  for (const std::string& text : peers.connect()) CheckAddress(text, false, false);
  MLXCOMM_MUST((peers.listen_size() == 0 && peers.connect_size() == 0) || !peers.key_file().empty(),
               "peers have a key");
  const std::uint64_t interval = peers.heartbeat_interval_ms();
  const std::uint64_t rate = peers.link_bytes_per_second();
  MLXCOMM_MUST(
      IsWithin(interval, 10, 60'000) &&
          IsWithin(peers.heartbeat_timeout_ms(), interval + 1, 600'000) &&
          peers.grace_period_ms() <= 600'000 && peers.reset_grace_ms() <= 60'000 &&
          IsWithin(peers.reconnect_delay_min_ms(), 1, 60'000) &&
          IsWithin(peers.reconnect_delay_max_ms(), peers.reconnect_delay_min_ms(), 600'000) &&
          peers.link_latency_us() <= 1'000'000 &&
          (rate == 0 || IsWithin(rate, 1'000'000, 1'000'000'000'000)) &&
          IsWithin(peers.queued_frames_max(), 4096, 1'048'576) &&
          IsWithin(peers.nodes_max(), 2, 4096) &&
          IsWithin(peers.queued_bytes_max(), 1ull << 24, 1ull << 40),
      "peers { } keeps its bounds");
  for (const auto& one : peers.interface_security()) {
    MLXCOMM_MUST(IsName(one.interface()) && one.has_security(), "an interface's security is whole");
  }
}

void CheckClients(const v1::ClientConfig& clients) {
  MLXCOMM_MUST(
      IsWithin(clients.clients_max(), 1, 4096) && clients.arena_bytes_max() <= 1ull << 46 &&
          IsWithin(clients.hello_timeout_ms(), 10, 60'000) &&
          IsWithin(clients.operation_timeout_ms(), 0, 86'400'000) &&
          IsWithin(clients.stalled_timeout_ms(), 1, 86'400'000) &&
          IsWithin(clients.rendezvous_timeout_ms(), 1, 86'400'000) &&
          clients.clients_per_user_max() <= 4096 &&
          clients.arena_bytes_per_user_max() <= 1ull << 58 &&
          clients.arena_bytes_all_max() <= 1ull << 58 &&
          IsWithin(clients.operations_max(), 64, 4'194'304) &&
          clients.operations_per_user_max() <= 4'194'304 && clients.groups_per_user_max() <= 4096,
      "clients { } keeps its bounds");
  MLXCOMM_MUST(clients.has_all_users(), "who is served is settled");
}

void CheckBounds(const v1::DaemonConfig& config) {
  MLXCOMM_MUST(IsName(config.cluster()) && config.has_cluster(), "the cluster has a name");
  MLXCOMM_MUST(IsName(config.node_name()), "the node has a name");
  MLXCOMM_MUST(!config.state_directory().empty(), "there is a place for the node's id");
  MLXCOMM_MUST(IsWithin(config.socket_path().size(), 1, sizeof(sockaddr_un::sun_path) - 1),
               "the socket's path fits the system's field");
  MLXCOMM_MUST(config.drain_timeout_ms() <= 3'600'000 && config.scratch_bytes_max() <= 1ull << 46,
               "the rest keeps its bounds");
  CheckPeers(config.peers());
  CheckClients(config.clients());
  const v1::RdmaConfig& rdma = config.rdma();
  MLXCOMM_MUST((rdma.messages() == 0 || IsWithin(rdma.messages(), 4, 1024)) &&
                   (rdma.message_bytes() == 0 || IsWithin(rdma.message_bytes(), 4096, 1'048'576)) &&
                   rdma.message_bytes() % 4096 == 0,
               "rdma { } keeps its bounds");
  MLXCOMM_MUST(IsWithin(config.discovery().port(), 1, 65535), "hellos have a port");
  for (const std::string& pattern : config.discovery().interfaces()) {
    MLXCOMM_MUST(IsWithin(pattern.size(), 1, 47) && IsPlainText(pattern),
                 "a pattern may be a name");
  }
  if (!config.metrics().has_listen()) return;
  CheckAddress(config.metrics().listen(), true, true);
  std::string host;
  std::uint64_t port = 0;
  MLXCOMM_MUST(Split(config.metrics().listen(), host, port) &&
                   (AddressOf(host).is_loopback || config.metrics().allow_other_machines()),
               "metrics are read from other machines only where that is said");
}

void CheckSameAgain(const v1::DaemonConfig& config) {
  std::string printed;
  MLXCOMM_MUST(google::protobuf::TextFormat::PrintToString(config, &printed), "it can be printed");
  const absl::StatusOr<v1::DaemonConfig> again = ParseConfig(printed, kName);
  MLXCOMM_MUST(again.ok(), "what is printed is accepted: " + std::string(again.status().message()));
  MLXCOMM_MUST(again->SerializeAsString() == config.SerializeAsString(),
               "what is printed is the same");
}

// "config:3:7: what"; a message may have several lines, which belong to the previous mistake.
void CheckMistakes(const std::string& message, const std::string& text) {
  const auto lines = static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n')) + 1;
  MLXCOMM_MUST(message.starts_with("config:"), "a mistake has a place: " + message);
  char* end = nullptr;
  const std::uint64_t line = std::strtoull(message.c_str() + sizeof kName, &end, 10);
  MLXCOMM_MUST(*end == ':' && IsWithin(line, 1, lines),
               "a mistake is on one of the text's lines: " + message);
  const std::uint64_t column = std::strtoull(end + 1, &end, 10);
  MLXCOMM_MUST(end[0] == ':' && end[1] == ' ' && column >= 1, "a mistake has a column: " + message);
}

}  // namespace
}  // namespace mlxcomm::config_fuzz

extern "C" int LLVMFuzzerInitialize(int* /*count*/, char*** /*arguments*/) {
  // Defaults that come from the user's environment would make runs differ.
  ::setenv("XDG_STATE_HOME", "/state", 1);
  ::setenv("XDG_RUNTIME_DIR", "/run/user", 1);
  google::protobuf::SetLogHandler(nullptr);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  using namespace mlxcomm::config_fuzz;  // NOLINT
  const std::string text(data, data + bytes);
  const absl::StatusOr<mlxcomm::v1::DaemonConfig> config = mlxcomm::ParseConfig(text, kName);
  if (!config.ok()) {
    MLXCOMM_MUST(absl::IsInvalidArgument(config.status()), "a mistake is an invalid argument");
    CheckMistakes(std::string(config.status().message()), text);
    return 0;
  }
  CheckBounds(*config);
  CheckSameAgain(*config);
  return 0;
}
