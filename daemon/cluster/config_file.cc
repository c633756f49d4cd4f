#include "daemon/cluster/config_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/text_format.h>
#include <openssl/rand.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "daemon/platform/file_descriptor.h"
#include "daemon/platform/machine.h"
#include "proto/wire/hello.h"

namespace mlxcomm::cluster {
namespace {

using google::protobuf::TextFormat;

// Collects every mistake with its place; protobuf counts lines from 0.
class Mistakes : public google::protobuf::io::ErrorCollector {
 public:
  explicit Mistakes(std::string name) : name_(std::move(name)) {}
#if GOOGLE_PROTOBUF_VERSION >= 4022000  // Its name changed with protobuf 22.
  void RecordError(int line, int column, absl::string_view message) override {
    Add(line, column, std::string(message));
  }
#else
  void AddError(int line, int column, const std::string& message) override {
    Add(line, column, message);
  }
#endif
  void Add(int line, int column, const std::string& message) {
    absl::StrAppend(&text_, text_.empty() ? "" : "\n", name_, ":", line + 1, ":", column + 1, ": ",
                    message);
  }
  bool any() const { return !text_.empty(); }
  const std::string& text() const { return text_; }

 private:
  std::string name_;
  std::string text_;
};

// Checks the bounds that config.proto states.
class BoundsCheck {
 public:
  explicit BoundsCheck(Mistakes& mistakes) : mistakes_(mistakes) {}

  void Check(const google::protobuf::Message& message, const TextFormat::ParseInfoTree* tree,
             const char* field, std::uint64_t value, std::uint64_t least, std::uint64_t most) {
    if (value >= least && value <= most) return;
    Report(message, tree, field,
           absl::StrCat(field, ": expected ", least, " to ", most, ", got ", value));
  }
  void Report(const google::protobuf::Message& message, const TextFormat::ParseInfoTree* tree,
              const char* field, const std::string& what) {
    const auto* const descriptor = message.GetDescriptor()->FindFieldByName(field);
    const TextFormat::ParseLocation place =
        tree == nullptr ? TextFormat::ParseLocation()
                        : tree->GetLocation(descriptor, descriptor->is_repeated() ? 0 : -1);
    mistakes_.Add(place.line < 0 ? 0 : place.line, place.column < 0 ? 0 : place.column, what);
  }

 private:
  Mistakes& mistakes_;
};

constexpr std::uint64_t kDayMs = 86'400'000;

void CheckPeers(const v1::PeerConfig& peers, const TextFormat::ParseInfoTree* tree,
                BoundsCheck& bounds) {
  bounds.Check(peers, tree, "heartbeat_interval_ms", peers.heartbeat_interval_ms(), 10, 60'000);
  bounds.Check(peers, tree, "heartbeat_timeout_ms", peers.heartbeat_timeout_ms(),
               std::uint64_t{peers.heartbeat_interval_ms()} + 1, 600'000);
  bounds.Check(peers, tree, "grace_period_ms", peers.grace_period_ms(), 0, 600'000);
  bounds.Check(peers, tree, "reset_grace_ms", peers.reset_grace_ms(), 0, 60'000);
  bounds.Check(peers, tree, "reconnect_delay_min_ms", peers.reconnect_delay_min_ms(), 1, 60'000);
  bounds.Check(peers, tree, "reconnect_delay_max_ms", peers.reconnect_delay_max_ms(),
               peers.reconnect_delay_min_ms(), 600'000);
  if ((peers.listen_size() > 0 || peers.connect_size() > 0) && peers.key_file().empty()) {
    bounds.Report(peers, tree, peers.listen_size() > 0 ? "listen" : "connect",
                  "key_file: expected as soon as there are peers (make one with: "
                  "openssl rand -hex 32 > FILE; chmod 600 FILE)");
  }
}

void CheckConfig(const v1::DaemonConfig& config, const TextFormat::ParseInfoTree& tree,
                 BoundsCheck& bounds) {
  const auto subtree = [&](const char* field) {
    return tree.GetTreeForNested(config.GetDescriptor()->FindFieldByName(field), -1);
  };
  if (config.cluster().empty() || config.cluster().size() >= wire::kNameBytesMax) {
    bounds.Report(config, &tree, "cluster",
                  absl::StrCat("cluster: expected 1 to ", wire::kNameBytesMax - 1, " bytes"));
  }
  if (config.node_name().size() >= wire::kNameBytesMax) {
    bounds.Report(config, &tree, "node_name",
                  absl::StrCat("node_name: expected at most ", wire::kNameBytesMax - 1, " bytes"));
  }
  bounds.Check(config, &tree, "drain_timeout_ms", config.drain_timeout_ms(), 0, 3'600'000);
  CheckPeers(config.peers(), subtree("peers"), bounds);
  const v1::ClientConfig& clients = config.clients();
  const auto* const client_tree = subtree("clients");
  bounds.Check(clients, client_tree, "clients_max", clients.clients_max(), 1, 4096);
  bounds.Check(clients, client_tree, "arena_bytes_max", clients.arena_bytes_max(), 0,
               std::uint64_t{1} << 46);
  bounds.Check(clients, client_tree, "hello_timeout_ms", clients.hello_timeout_ms(), 10, 60'000);
  bounds.Check(clients, client_tree, "operation_timeout_ms", clients.operation_timeout_ms(), 1,
               kDayMs);
  bounds.Check(clients, client_tree, "rendezvous_timeout_ms", clients.rendezvous_timeout_ms(), 1,
               kDayMs);
}

void FillDefaults(v1::DaemonConfig& config) {
  if (!config.has_cluster()) config.set_cluster(config.cluster());
  if (config.node_name().empty()) config.set_node_name(platform::HostName());
  if (config.state_directory().empty()) {
    config.set_state_directory(platform::DefaultStateDirectory());
  }
  if (config.socket_path().empty()) config.set_socket_path(platform::DefaultSocketPath());
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Whole bytes from hexadecimal digits, white space at the end allowed.
bool FromHex(const std::string& text, std::uint8_t* bytes, std::size_t count) {
  const std::size_t end = text.find_last_not_of(" \t\r\n");
  if (end == std::string::npos || end + 1 != 2 * count) return false;
  for (std::size_t i = 0; i < count; ++i) {
    const int high = HexDigit(text[2 * i]);
    const int low = HexDigit(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    bytes[i] = static_cast<std::uint8_t>(high << 4 | low);
  }
  return true;
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

absl::StatusOr<v1::DaemonConfig> ParseConfig(const std::string& text, const std::string& name) {
  v1::DaemonConfig config;
  Mistakes mistakes(name);
  TextFormat::ParseInfoTree tree;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&mistakes);
  parser.WriteLocationsTo(&tree);
  const bool parsed = parser.ParseFromString(text, &config);
  if (parsed && !mistakes.any()) {
    BoundsCheck bounds(mistakes);
    CheckConfig(config, tree, bounds);
  }
  if (!parsed || mistakes.any()) return absl::InvalidArgumentError(mistakes.text());
  FillDefaults(config);
  return config;
}

absl::StatusOr<v1::DaemonConfig> ReadConfigFile(const std::string& path) {
  if (path.empty()) return ParseConfig("", "defaults");
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected a readable configuration file"));
  }
  if (::access(path.c_str(), R_OK) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", std::strerror(errno)));
  }
  return ParseConfig(ReadAll(path), path);
}

absl::StatusOr<std::vector<std::uint8_t>> ReadKeyFile(const std::string& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("key_file ", path, ": ", std::strerror(errno),
                     " (make one with: openssl rand -hex 32 > ", path, "; chmod 600 ", path, ")"));
  }
  if (!S_ISREG(facts.st_mode) || (facts.st_uid != ::geteuid() && facts.st_uid != 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("key_file ", path, ": expected a regular file of this user"));
  }
  if ((facts.st_mode & 077) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "key_file ", path, ": others may read it; mend it with: chmod 600 ", path));
  }
  std::vector<std::uint8_t> key(wire::kClusterKeyBytes);
  if (!FromHex(ReadAll(path), key.data(), key.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("key_file ", path, ": expected 64 hexadecimal digits (openssl rand -hex 32)"));
  }
  return key;
}

NodeId MakeNodeId() {
  NodeId id;
  if (RAND_bytes(id.bytes.data(), static_cast<int>(id.bytes.size())) != 1) std::abort();
  return id;
}

absl::StatusOr<NodeId> ReadOrMakeNodeId(const std::string& directory) {
  const std::string path = directory + "/node-id";
  NodeId id;
  std::error_code error;
  if (std::filesystem::exists(path, error)) {
    if (FromHex(ReadAll(path), id.bytes.data(), id.bytes.size())) return id;
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": expected 32 hexadecimal digits; remove it to get a new identity"));
  }
  std::filesystem::create_directories(directory, error);
  id = MakeNodeId();
  // Written aside and moved into place: a crash leaves the old file or the new one.
  const std::string fresh = path + ".new";
  platform::FileDescriptor file(
      ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  const std::string text = id.ToString() + "\n";
  if (!file.valid() ||
      ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::fsync(file.get()) != 0 || ::rename(fresh.c_str(), path.c_str()) != 0) {
    return absl::FailedPreconditionError(absl::StrCat("cannot write ", path, ": ",
                                                      std::strerror(errno),
                                                      " (set state_directory)"));
  }
  return id;
}

}  // namespace mlxcomm::cluster
