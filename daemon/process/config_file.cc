#include "daemon/process/config_file.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>
#include <openssl/rand.h>
#include <asio/ip/address.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "daemon/platform/machine.h"
#include "daemon/process/settings.h"
#include "proto/key/key_code.h"
#include "proto/system/small_file.h"
#include "proto/types/did_you_mean.h"
#include "proto/types/plain_text.h"
#include "proto/wire/hello.h"

namespace mlxcomm {
namespace {

using google::protobuf::TextFormat;

// Rewords protobuf's message about an unknown field, with the field that was probably meant.
std::string InTheUsersWords(const std::string& message) {
  const std::vector<std::string> parts = absl::StrSplit(message, '"');
  if (parts.size() != 5 || parts[0] != "Message type " || parts[2] != " has no field named ")
    return message;
  const auto* const type =
      google::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName(parts[1]);
  if (type == nullptr) return message;
  std::vector<std::string> names;
  for (int i = 0; i < type->field_count(); ++i) names.emplace_back(type->field(i)->name());
  const std::string meant = DidYouMean(parts[3], names);
  return absl::StrCat("unknown field \"", parts[3], "\"",
                      meant.empty() ? "; mlxcommd --print-config lists all fields" : meant);
}

// Collects every error with its location; protobuf counts lines from 0.
class Mistakes : public google::protobuf::io::ErrorCollector {
 public:
  explicit Mistakes(std::string name) : name_(std::move(name)) {}
#if GOOGLE_PROTOBUF_VERSION >= 4022000  // Its name changed with protobuf 22.
  void RecordError(int line, int column, absl::string_view message) override {
    Add(line, column, InTheUsersWords(std::string(message)));
  }
#else
  void AddError(int line, int column, const std::string& message) override {
    Add(line, column, InTheUsersWords(message));
  }
#endif
  void Add(int line, int column, const std::string& message) {
    absl::StrAppend(&text_, text_.empty() ? "" : "\n", name_, ":", line + 1, ":", column + 1, ": ",
                    message);
  }
  // Checks numbers against their settings.
  void CheckNumbers(const google::protobuf::Message& message,
                    const TextFormat::ParseInfoTree* tree) {
    CheckSettings(message, [&](const google::protobuf::FieldDescriptor& field,
                               const std::string& what) { ReportAt(field, tree, what, 0); });
  }
  // `index`: the element of a repeated field.
  void Report(const google::protobuf::Message& message, const TextFormat::ParseInfoTree* tree,
              const char* field, const std::string& what, int index = 0) {
    ReportAt(*message.GetDescriptor()->FindFieldByName(field), tree, what, index);
  }
  bool any() const { return !text_.empty(); }
  const std::string& text() const { return text_; }

 private:
  void ReportAt(const google::protobuf::FieldDescriptor& field,
                const TextFormat::ParseInfoTree* tree, const std::string& what, int index) {
    const TextFormat::ParseLocation place =
        tree == nullptr ? TextFormat::ParseLocation() : LocationOf(*tree, &field, index);
    Add(place.line < 0 ? 0 : place.line, place.column < 0 ? 0 : place.column, what);
  }
  // Newer versions of protobuf return more, and deprecate the older function.
  template <typename Tree>
  static TextFormat::ParseLocation LocationOf(const Tree& tree,
                                              const google::protobuf::FieldDescriptor* field,
                                              int index) {
    if constexpr (requires { tree.GetFieldLocation(field); }) {
      const auto place = field->is_repeated()
                             ? tree.GetFieldLocation(field, static_cast<std::uint32_t>(index))
                             : tree.GetFieldLocation(field);
      return place.ok() ? place->full.start : TextFormat::ParseLocation();
    } else {
      return tree.GetLocation(field, field->is_repeated() ? index : -1);
    }
  }

  std::string name_;
  std::string text_;
};

constexpr std::size_t kSocketPathBytesMax = sizeof(sockaddr_un::sun_path) - 1;

// Names appear in status and errors, so every protobuf reader and terminal must accept them.
bool IsName(const std::string& name) {
  return !name.empty() && name.size() < wire::kNameBytesMax && IsPlainText(name);
}

void CheckName(const v1::DaemonConfig& config, const TextFormat::ParseInfoTree& tree,
               const char* field, const std::string& name, Mistakes& mistakes) {
  if (IsName(name)) return;
  mistakes.Report(config, &tree, field,
                  absl::StrCat(field, ": expected 1 to ", wire::kNameBytesMax - 1,
                               " bytes of UTF-8 without control characters"));
}

// Characters with a meaning in commands: --nodes mac-1,mac-[3-4].
constexpr char kNotInNodeNames[] = " ,/[]:=@\"'\\";

void CheckNodeName(const v1::DaemonConfig& config, const TextFormat::ParseInfoTree& tree,
                   Mistakes& mistakes) {
  if (!config.has_node_name()) return;
  CheckName(config, tree, "node_name", config.node_name(), mistakes);
  if (config.node_name().find_first_of(kNotInNodeNames) == std::string::npos) return;
  mistakes.Report(config, &tree, "node_name",
                  absl::StrCat("node_name: \"", config.node_name(),
                               "\" has a space or one of ,/[]:=@\"'\\, so commands could not name "
                               "this node: expected a name such as mac-1"));
}

// Returns nullopt for a host name, which might refer to another machine later. The interface after
// '%' need not exist.
std::optional<asio::ip::address> AddressOf(const std::string& host) {
  asio::error_code error;
  const asio::ip::address address = asio::ip::make_address(host, error);
  return error ? std::nullopt : std::optional(address);
}

// True for a link-local address without an interface: every interface has one, so it would be
// ambiguous.
bool LacksInterface(const std::string& host) {
  const std::size_t percent = host.find('%');
  if (percent != std::string::npos && percent + 1 < host.size()) return false;
  const auto address = AddressOf(host.substr(0, percent));
  return address && address->is_v6() && address->to_v6().is_link_local();
}

// Returns the host in "HOST:PORT" or "[ADDRESS]:PORT", or an empty text. Only characters of names
// and addresses are accepted, because the host appears in status.
std::string HostIn(const std::string& text, bool any_port) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return {};
  std::uint32_t port = 0;
  const std::string digits = text.substr(colon + 1);
  if (digits.find_first_not_of("0123456789") != std::string::npos ||
      !absl::SimpleAtoi(digits, &port) || port > 65535 || (port == 0 && !any_port)) {
    return {};
  }
  std::string host = text.substr(0, colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  const bool fine = std::ranges::all_of(host, [bracketed](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == '_' ||
           (bracketed && (c == ':' || c == '%'));
  });
  // A link-local address without an interface gets its own error.
  const bool ends_in_nothing = host.ends_with('%') && !LacksInterface(host);
  return fine && !ends_in_nothing ? host : std::string();
}

std::string ExpectedInterface(const char* field, int usual_port, const std::string& text) {
  return absl::StrCat(field,
                      ": expected an interface of this machine with a link-local address, such as "
                      "\"[fe80::1%en2]:",
                      usual_port, "\", got \"", absl::CHexEscape(text), "\"");
}

std::string ExpectedAddress(const std::string& text) {
  return absl::StrCat(
      "listen: expected \"ADDRESS:PORT\" or \"[ADDRESS]:PORT\" with a numeric address of this "
      "machine (no host name), got \"",
      absl::CHexEscape(text), "\"");
}

void CheckAddresses(const v1::PeerConfig& peers, const TextFormat::ParseInfoTree* tree,
                    Mistakes& mistakes) {
  const auto check_interface = [&](const char* field, const std::string& text, int i) {
    if (!LacksInterface(HostIn(text, /*any_port=*/true))) return;
    mistakes.Report(peers, tree, field, ExpectedInterface(field, 7470, text), i);
  };
  for (int i = 0; i < peers.listen_size(); ++i) {
    check_interface("listen", peers.listen(i), i);
    if (AddressOf(HostIn(peers.listen(i), /*any_port=*/true))) continue;
    mistakes.Report(peers, tree, "listen", ExpectedAddress(peers.listen(i)), i);
  }
  for (int i = 0; i < peers.connect_size(); ++i) {
    check_interface("connect", peers.connect(i), i);
    if (!HostIn(peers.connect(i), /*any_port=*/false).empty()) continue;
    const std::string what =
        absl::StrCat("connect: expected \"HOST:PORT\" with port 1 to 65535, got \"",
                     absl::CHexEscape(peers.connect(i)), "\"");
    mistakes.Report(peers, tree, "connect", what, i);
  }
}

void CheckPeers(const v1::PeerConfig& peers, const TextFormat::ParseInfoTree* tree,
                Mistakes& mistakes) {
  CheckAddresses(peers, tree, mistakes);
  if ((peers.listen_size() > 0 || peers.connect_size() > 0) && peers.key_file().empty()) {
    mistakes.Report(
        peers, tree, peers.listen_size() > 0 ? "listen" : "connect",
        "key_file: required if there are peers (create one with: mlxcommctl cluster create; "
        "or copy another machine's: mlxcommctl cluster join)");
  }
  for (int i = 0; i < peers.interface_security_size(); ++i) {
    if (IsName(peers.interface_security(i).interface()) &&
        peers.interface_security(i).has_security()) {
      continue;
    }
    mistakes.Report(
        peers, tree, "interface_security",
        "interface_security: expected { interface: \"NAME\" security: AUTO, TLS or PLAIN }", i);
  }
}

void CheckMetrics(const v1::MetricsConfig& metrics, const TextFormat::ParseInfoTree* tree,
                  Mistakes& mistakes) {
  if (!metrics.has_listen()) return;
  const std::string host = HostIn(metrics.listen(), /*any_port=*/true);
  const auto address = AddressOf(host);
  if (!address) {
    mistakes.Report(metrics, tree, "listen", ExpectedAddress(metrics.listen()));
  } else if (LacksInterface(host)) {
    mistakes.Report(metrics, tree, "listen", ExpectedInterface("listen", 9477, metrics.listen()));
  } else if (!address->is_loopback() && !metrics.allow_other_machines()) {
    mistakes.Report(metrics, tree, "listen",
                    absl::StrCat("listen: ", host,
                                 " is not a loopback address, so anyone who can reach it could "
                                 "read all metrics: use 127.0.0.1, or set "
                                 "allow_other_machines: true"));
  }
}

void CheckDiscovery(const v1::DiscoveryConfig& discovery, const TextFormat::ParseInfoTree* tree,
                    Mistakes& mistakes) {
  for (int i = 0; i < discovery.interfaces_size(); ++i) {
    const std::string& pattern = discovery.interfaces(i);
    if (!pattern.empty() && pattern.size() < wire::kInterfaceBytesMax && IsPlainText(pattern))
      continue;
    mistakes.Report(discovery, tree, "interfaces",
                    absl::StrCat("interfaces: expected the name of an interface, with * and ? as "
                                 "wildcards, such as \"en*\", got \"",
                                 absl::CHexEscape(pattern), "\""),
                    i);
  }
}

void CheckConfig(const v1::DaemonConfig& config, const TextFormat::ParseInfoTree& tree,
                 Mistakes& mistakes) {
  const auto subtree = [&](const char* field) {
    return tree.GetTreeForNested(config.GetDescriptor()->FindFieldByName(field), -1);
  };
  CheckName(config, tree, "cluster", config.cluster(), mistakes);
  CheckNodeName(config, tree, mistakes);
  if (config.has_socket_path()) {
    const std::string mistake = MistakeInSocketPath(config.socket_path());
    if (!mistake.empty()) mistakes.Report(config, &tree, "socket_path", "socket_path: " + mistake);
  }
  mistakes.CheckNumbers(config, &tree);
  for (int i = 0; i < config.GetDescriptor()->field_count(); ++i) {
    const google::protobuf::FieldDescriptor& field = *config.GetDescriptor()->field(i);
    if (field.cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE ||
        field.is_repeated()) {
      continue;
    }
    mistakes.CheckNumbers(config.GetReflection()->GetMessage(config, &field),
                          tree.GetTreeForNested(&field, -1));
  }
  CheckPeers(config.peers(), subtree("peers"), mistakes);
  CheckDiscovery(config.discovery(), subtree("discovery"), mistakes);
  CheckMetrics(config.metrics(), subtree("metrics"), mistakes);
}

void FillDefaults(v1::DaemonConfig& config) {
  if (!config.has_cluster()) config.set_cluster(config.cluster());
  if (config.node_name().empty()) {
    config.set_node_name(std::string(Utf8Prefix(platform::HostName(), wire::kNameBytesMax - 1)));
    if (!IsName(config.node_name())) config.set_node_name("localhost");
  }
  if (config.state_directory().empty()) {
    config.set_state_directory(platform::DefaultStateDirectory());
  }
  // Run by root, this is the service, which keeps users apart.
  if (!config.clients().has_all_users()) {
    config.mutable_clients()->set_all_users(::geteuid() == 0);
  }
  if (!config.has_socket_path()) config.set_socket_path(platform::DefaultSocketPath());
}

constexpr std::size_t kFileBytesMax = 1024 * 1024;

// Uses the key file at `place` if the configuration names none.
void FindKeyFile(v1::DaemonConfig& config, const std::string& place) {
  if (!config.peers().key_file().empty()) return;
  std::error_code error;
  if (!place.empty() && std::filesystem::exists(place, error)) {
    config.mutable_peers()->set_key_file(place);
  }
}

// Sets the cluster's name from the key file if the configuration has none. Errors in the key file
// are reported with all others, including by --check-config and the service's installer.
void TakeFromKeyFile(v1::DaemonConfig& config, const TextFormat::ParseInfoTree& tree,
                     Mistakes& mistakes) {
  if (config.peers().key_file().empty()) return;
  const absl::StatusOr<ClusterKeys> keys = ReadKeyFile(config.peers().key_file());
  if (keys.ok() && !keys->cluster.empty() && !config.has_cluster()) {
    config.set_cluster(keys->cluster);
  }
  if (keys.ok()) return;
  const auto* const field = config.GetDescriptor()->FindFieldByName("peers");
  mistakes.Report(config.peers(), tree.GetTreeForNested(field, -1), "key_file",
                  std::string(keys.status().message()));
}

// `key_place`: the default key file; nullptr: no key file is read.
absl::StatusOr<v1::DaemonConfig> Parse(const std::string& text, const std::string& name,
                                       const std::string* key_place) {
  v1::DaemonConfig config;
  Mistakes mistakes(name);
  TextFormat::ParseInfoTree tree;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&mistakes);
  parser.WriteLocationsTo(&tree);
  const bool parsed = parser.ParseFromString(text, &config);
  if (parsed && !mistakes.any()) {
    if (key_place != nullptr) FindKeyFile(config, *key_place);
    CheckConfig(config, tree, mistakes);
    if (key_place != nullptr) TakeFromKeyFile(config, tree, mistakes);
  }
  if (!parsed || mistakes.any()) return absl::InvalidArgumentError(mistakes.text());
  FillDefaults(config);
  return config;
}

// Returns NOT_FOUND if the file does not exist.
absl::Status ReadNodeId(const std::string& path, NodeId& id) {
  const FileDescriptor file = OpenToRead(path);
  if (!file.valid() && (errno == ENOENT || errno == ENOTDIR)) return absl::NotFoundError(path);
  if (!file.valid()) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": ", std::strerror(errno), " (set state_directory)"));
  }
  std::string text;
  const bool is_read = ReadAtMost(file, kFileBytesMax, text);
  text.resize(text.find_last_not_of(" \t\r\n") + 1);
  if (is_read && ReadHex(text, id.bytes)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(path, ": expected 32 hexadecimal digits; remove it to get a new identity"));
}

}  // namespace

std::string MistakeInSocketPath(const std::string& path) {
  if (path.size() > kSocketPathBytesMax) {
    return absl::StrCat("expected at most ", kSocketPathBytesMax, " bytes, got ", path.size());
  }
  if (path.starts_with('/')) return {};
  return absl::StrCat("expected a path that begins with /, got \"", MakePrintable(path), "\"");
}

absl::StatusOr<v1::DaemonConfig> ParseConfig(const std::string& text, const std::string& name) {
  return Parse(text, name, /*key_place=*/nullptr);
}

absl::StatusOr<v1::DaemonConfig> ReadConfigFile(const std::string& path,
                                                const std::string& key_place) {
  if (path.empty()) return Parse("", "defaults", &key_place);
  const FileDescriptor file = OpenToRead(path);
  struct stat facts{};
  if (!file.valid() || ::fstat(file.get(), &facts) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected a configuration file: ", std::strerror(errno)));
  }
  if (!S_ISREG(facts.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected a configuration file: it is not a regular file"));
  }
  std::string text;
  if (!ReadAtMost(file, kFileBytesMax, text)) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": ", errno == EFBIG ? "expected at most a mebibyte" : std::strerror(errno)));
  }
  return Parse(text, path, &key_place);
}

std::string WarningOf(const v1::DaemonConfig& config) {
  if (!config.clients().all_users() || ::geteuid() == 0) return {};
  return absl::StrCat(
      "clients { all_users: true } will serve only user ", ::geteuid(),
      " and root: processes of other users trust only their own daemon and root's. Run it as root "
      "(mlxcommctl service install), or remove all_users");
}

std::string AnnotatedConfig() {
  return absl::StrCat(
      "# mlxcommd's configuration: every field with its default. Fields without a default are "
      "commented\n"
      "# out and show an example. Written by mlxcommd --print-config; mlxcommd --check-config "
      "reports\n"
      "# errors by line.\n\n",
      WriteAnnotated(*v1::DaemonConfig::descriptor()));
}

NodeId MakeNodeId() {
  NodeId id;
  if (RAND_bytes(id.bytes.data(), static_cast<int>(id.bytes.size())) != 1) std::abort();
  return id;
}

absl::Status CheckStateDirectory(const std::string& directory) {
  struct stat facts{};
  if (::stat(directory.c_str(), &facts) != 0) return absl::OkStatus();  // Writing there will fail.
  if (facts.st_uid != 0 && facts.st_uid != ::geteuid()) {
    return absl::FailedPreconditionError(absl::StrCat(
        directory, " belongs to user ", facts.st_uid,
        ", who could change this node's identity: set state_directory to a folder of user ",
        ::geteuid(), " or of root"));
  }
  if ((facts.st_mode & S_IWOTH) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "every user may write to ", directory, " and could change this node's identity: ",
        (facts.st_mode & S_ISVTX) != 0 ? "" : "remove that permission (chmod o-w), or ",
        "set state_directory to another folder"));
  }
  return absl::OkStatus();
}

absl::StatusOr<NodeId> ReadOrMakeNodeId(const std::string& directory) {
  const std::string path = directory + "/node-id";
  NodeId id;
  const absl::Status found = ReadNodeId(path, id);
  if (!found.ok()) {
    if (!absl::IsNotFound(found)) return found;
    // The next step that needs the folder reports the error.
    std::error_code ignored;
    std::filesystem::create_directories(directory, ignored);
  }
  if (absl::Status fine = CheckStateDirectory(directory); !fine.ok()) return fine;
  if (found.ok()) return id;
  id = MakeNodeId();
  // Written to a temporary file and linked: never incomplete, and of two daemons the first one
  // wins.
  if (WriteWhole(path, id.ToString() + "\n", Placing::kOnlyNew)) return id;
  const int why = errno;
  if (why == EEXIST && ReadNodeId(path, id).ok()) return id;
  return absl::FailedPreconditionError(
      absl::StrCat("cannot write ", path, ": ", std::strerror(why), " (set state_directory)"));
}

}  // namespace mlxcomm
