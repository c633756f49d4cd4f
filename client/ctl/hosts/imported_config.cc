#include "client/ctl/hosts/imported_config.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <string_view>
#include <utility>

#include <google/protobuf/text_format.h>

#include "client/ctl/cli/json_text.h"
#include "client/ctl/hosts/host_list.h"
#include "mlxcomm/v1/config.pb.h"
#include "proto/wire/hello.h"

namespace mlxcomm::ctl {
namespace {

constexpr std::string_view kDevicePrefix = "rdma_";
// Daemons exchange names in fields of fixed size; mlxcommd refuses a longer one.
constexpr std::size_t kNodeNameBytesMax = wire::kNameBytesMax - 1;

// Or one with its interface: fe80::1%en2. The text behind '%' is not checked.
bool IsAddress(const std::string& text) {
  std::array<unsigned char, 16> bytes;
  const std::string bare = text.substr(0, text.find('%'));
  return ::inet_pton(AF_INET, text.c_str(), bytes.data()) == 1 ||
         ::inet_pton(AF_INET6, bare.c_str(), bytes.data()) == 1;
}

// What is wrong with an address for mlxcommd; empty: nothing.
std::string MistakeInAddress(const std::string& text) {
  if (!IsAddress(text)) return "expected an IPv4 or IPv6 address";
  const std::size_t percent = text.find('%');
  if (percent == std::string::npos) {
    in6_addr six{};
    const bool is_v6 = ::inet_pton(AF_INET6, text.c_str(), &six) == 1;
    // Every interface has such addresses.
    if (!is_v6 || !IN6_IS_ADDR_LINKLOCAL(&six)) return "";
    return "expected a link-local address with its interface, as fe80::1%en2";
  }
  const std::string_view interface = std::string_view(text).substr(percent + 1);
  const bool fine = std::all_of(interface.begin(), interface.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
  });
  if (fine && !interface.empty()) return "";
  return "expected an interface of letters, digits, '.', '-' and '_' behind '%', as fe80::1%en2";
}

bool IsInterfaceName(const std::string& text) {
  constexpr std::size_t kBytesMax = 15;
  return !text.empty() && text.size() <= kBytesMax &&
         std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return std::isalnum(c) != 0; });
}

std::string WithPort(const std::string& address, std::uint16_t port) {
  const bool v6 = address.find(':') != std::string::npos;
  return (v6 ? "[" + address + "]" : address) + ":" + std::to_string(port);
}

// Where MLX names devices, their cables are the ones to use: RDMA rails lie beside connections,
// which need no addresses on Thunderbolt's interfaces, where neighbours find each other.
void UseDevices(const HostEntry& host, v1::DaemonConfig& config) {
  std::set<std::string> interfaces;
  bool any = false;
  for (const std::vector<std::string>& devices : host.rdma) {
    for (const std::string& device : devices) {
      any = true;
      // On macOS a device is named after the interface of its cable.
      const std::string name =
          device.starts_with(kDevicePrefix) ? device.substr(kDevicePrefix.size()) : "";
      if (IsInterfaceName(name)) interfaces.insert(name);
    }
  }
  if (any) config.mutable_rdma()->set_enabled(true);
  if (interfaces.empty()) return;
  config.mutable_discovery()->set_enabled(true);
  for (const std::string& name : interfaces) config.mutable_discovery()->add_interfaces(name);
}

std::string NodeName(const std::string& host) { return host.substr(host.find('@') + 1); }

// A host that is listed once for each of its ranks is one node.
Failure Nodes(const Hostfile& file, const ImportOptions& options, std::vector<HostEntry>& nodes) {
  for (const HostEntry& host : file.hosts) {
    const auto invalid = [&](const std::string& what) {
      return Failure{FailureCode::kInvalidArgument, kNoRank,
                     options.path + ": host " + host.name + ": " + what};
    };
    HostEntry node = host;
    node.name = NodeName(host.name);
    if (node.name.size() > kNodeNameBytesMax) {
      return invalid("expected a name of at most " + std::to_string(kNodeNameBytesMax) +
                     " bytes, for its node is called so, got " + std::to_string(node.name.size()) +
                     ": use a shorter one, such as an alias in ~/.ssh/config");
    }
    const auto same = [&](const HostEntry& one) { return one.name == node.name; };
    if (const auto known = std::find_if(nodes.begin(), nodes.end(), same); known != nodes.end()) {
      known->rdma.insert(known->rdma.end(), host.rdma.begin(), host.rdma.end());
      continue;
    }
    if (node.ips.empty() && IsAddress(node.name)) node.ips.push_back(node.name);
    if (node.ips.empty()) {
      return invalid(
          "has no \"ips\", but a daemon listens on addresses alone: add them, in MLX's form of "
          "the file ({\"ssh\": ..., \"ips\": [...]})");
    }
    for (const std::string& ip : node.ips) {
      const std::string mistake = MistakeInAddress(ip);
      if (mistake.empty()) continue;
      return invalid((host.ips.empty() ? "" : "ips: ") + mistake + ", got \"" + ip + "\"");
    }
    nodes.push_back(std::move(node));
  }
  return {};
}

void ConnectTo(const HostEntry& host, std::uint16_t port, v1::PeerConfig& peers) {
  for (const std::string& ip : host.ips) peers.add_connect(WithPort(ip, port));
}

}  // namespace

std::string LinksOf(const Hostfile& file) {
  const bool several = std::any_of(file.hosts.begin(), file.hosts.end(),
                                   [](const HostEntry& host) { return host.ips.size() > 1; });
  return file.backend == "ring" || several ? "ring" : "all";
}

Failure MakeConfigs(const Hostfile& file, const ImportOptions& options,
                    std::vector<ImportedConfig>& configs) {
  std::vector<HostEntry> nodes;
  if (Failure failure = Nodes(file, options, nodes); !failure.ok()) return failure;
  const bool ring = (options.links.empty() ? LinksOf(file) : options.links) == "ring";
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    v1::DaemonConfig config;
    if (!options.cluster.empty()) config.set_cluster(options.cluster);
    config.set_node_name(nodes[i].name);
    v1::PeerConfig& peers = *config.mutable_peers();
    for (const std::string& ip : nodes[i].ips) peers.add_listen(WithPort(ip, options.port));
    if (ring && (nodes.size() > 2 || i + 1 < nodes.size())) {
      ConnectTo(nodes[(i + 1) % nodes.size()], options.port, peers);
    }
    for (std::size_t j = i + 1; !ring && j < nodes.size(); ++j)
      ConnectTo(nodes[j], options.port, peers);
    peers.set_key_file(options.key_file);
    UseDevices(nodes[i], config);
    ImportedConfig& made = configs.emplace_back();
    made.node_name = nodes[i].name;
    if (!google::protobuf::TextFormat::PrintToString(config, &made.text)) {
      return {FailureCode::kInternal, kNoRank, "no text of the configuration of " + made.node_name};
    }
    made.text.insert(
        0, "# Made by `mlxcommctl hosts import`; config/mlxcommd.textproto shows all fields.\n");
  }
  return {};
}

std::string ImportedJson(const Hostfile& file, const std::string& links,
                         const std::vector<std::string>& paths) {
  v1::ImportedHostList list;
  FillHosts(file, list);
  list.mutable_configs()->Assign(paths.begin(), paths.end());
  list.set_links(links);
  return JsonOf(std::move(list));
}

}  // namespace mlxcomm::ctl
