// Findings about hosts that launch would start ranks on by ssh.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/ctl/doctor/check.h"

namespace mlxcomm::ctl {
namespace {

constexpr char kReachable[] = "ssh that asks for nothing, as mlxcommctl launch calls it";

// As ssh is to be told it by hand: `host` is one that launch takes, so no option and nothing for a shell.
Fix ByHand(const std::vector<std::string>& command) { return {command, /*safe=*/false}; }

void AddUnreached(const Facts& facts, const SshHostFacts& host, Findings& findings) {
  const std::string object = absl::StrCat("host ", host.host);
  switch (host.answer) {
    case SshAnswer::kReached:
    case SshAnswer::kNoSsh: return;  // The latter is told once, of this machine.
    case SshAnswer::kNameUnknown:
      findings.Add(
          {"MC602",
           object,
           host.said,
           "a name that this machine finds an address for",
           absl::StrCat("is the name right? A Mac is NAME.local in its own network; an alias "
                        "for ssh goes into ~/.ssh/config: Host ",
                        host.host, ", HostName ADDRESS"),
           {}});
      return;
    case SshAnswer::kRefused:
      findings.Add(
          {"MC603",
           object,
           host.said,
           "sshd, which takes connections",
           "on that Mac: System Settings, General, Sharing, Remote Login; on Linux: start sshd. "
           "Where it listens at another port: Port in ~/.ssh/config",
           {}});
      return;
    case SshAnswer::kNoRoute:
    case SshAnswer::kNoAnswer:
      findings.Add(
          {"MC604",
           object,
           host.said,
           kReachable,
           host.answer == SshAnswer::kNoRoute
               ? absl::StrCat("is it awake and on this network? Else ", LocalNetworkRemedy(facts))
               : absl::StrCat("is it awake and on this network, and does a firewall let TCP port "
                              "22 through? Where it answers by hand (ssh ",
                              host.host, " true), what its shell starts may wait for something"),
           {}});
      return;
    case SshAnswer::kKeyUnknown:
      findings.Add({"MC605",
                    object,
                    host.said,
                    "a host key that is known here",
                    absl::StrCat("connect once by hand, compare the fingerprint and take it: ssh ",
                                 host.host, " true"),
                    {}});
      return;
    case SshAnswer::kKeyChanged:
      findings.Add(
          {"MC605", object, host.said, "the host key that is known here",
           "where the machine was set up anew: forget its old key, and connect once by hand; "
           "else somebody may stand between the two",
           ByHand({"ssh-keygen", "-R", host.host.substr(host.host.rfind('@') + 1)})});
      return;
    case SshAnswer::kDenied:
      findings.Add(
          {"MC606", object, host.said, "a key of this user that the host takes, and no question",
           "give the host this user's key (none yet: ssh-keygen -t ed25519); one with a passphrase "
           "has to be in the agent: ssh-add. Another user there: USER@HOST",
           ByHand({"ssh-copy-id", host.host})});
      return;
    case SshAnswer::kFailed:
      findings.Add({"MC607",
                    object,
                    host.said,
                    kReachable,
                    absl::StrCat("see what it says by hand: ssh -v ", host.host,
                                 " true; a login shell there has to run what it is given"),
                    {}});
      return;
  }
}

// Whether it is as it should be.
bool CheckProgram(const Facts& facts, const SshHostFacts& host, Findings& findings) {
  const std::string object = absl::StrCat("host ", host.host);
  if (host.version.empty()) {
    const bool none = host.path.empty();
    findings.Add(
        {"MC608",
         object,
         none ? absl::StrCat("it is not where it is here, nor in ", host.searched)
              : absl::StrCat(host.path, " ", host.version_said),
         absl::StrCat("mlxcommctl ", facts.own_version),
         none ? "install mlxcomm there, at the same path as here; or link its mlxcommctl into "
                "/usr/local/bin. What a shell's profile adds to PATH is not seen: ssh reads none"
              : "install the same release of mlxcomm there again",
         {}});
    return false;
  }
  if (host.version == facts.own_version) return true;
  findings.Add({"MC609",
                object,
                absl::StrCat(host.path, " is of release ", host.version),
                absl::StrCat("release ", facts.own_version, ", as here"),
                "install the same release on both: launch takes no other",
                {}});
  return false;
}

// Likewise.
bool CheckDaemonThere(const Facts& facts, const SshHostFacts& host, Findings& findings) {
  const std::string object = absl::StrCat("host ", host.host);
  if (!host.daemon_answers) {
    findings.Add({"MC610",
                  object,
                  host.daemon_said,
                  "mlxcommd of this cluster, which ranks there go through",
                  absl::StrCat("start it there; mlxcommctl doctor on that host says more (ssh ",
                               host.host, ")"),
                  {}});
    return false;
  }
  if (!facts.cluster.daemon_answers || host.node_id.empty()) return true;  // Nothing to compare.
  const v1::StatusReply& own = facts.cluster.status;
  const bool is_up =
      std::any_of(own.nodes().begin(), own.nodes().end(), [&host](const v1::NodeStatus& node) {
        return node.id() == host.node_id && node.state() != "lost";
      });
  if (is_up) return true;
  findings.Add(
      {"MC611",
       object,
       absl::StrCat("node ", host.node, " of cluster ", host.cluster, ", which no link leads to"),
       absl::StrCat("a node of cluster ", own.cluster(), " that is up"),
       "ranks there would never meet those of this cluster. The same cluster's name and key on "
       "both (mlxcommctl cluster join), and a cable or network between them; where it is a "
       "private daemon that answers, start the service there",
       {}});
  return false;
}

}  // namespace

void CheckSsh(const Facts& facts, Findings& findings) {
  const SshFacts& ssh = facts.ssh;
  if (!ssh.asked) return;
  const auto no_ssh =
      std::find_if(ssh.hosts.begin(), ssh.hosts.end(),
                   [](const SshHostFacts& host) { return host.answer == SshAnswer::kNoSsh; });
  if (no_ssh != ssh.hosts.end()) {
    findings.Add({"MC601",
                  "ssh",
                  no_ssh->said,
                  "OpenSSH's client",
                  "install it (openssh-client), or say how it is called: --ssh-command",
                  {}});
  }
  for (const std::string& node : ssh.nameless) {
    findings.Add({"MC612",
                  absl::StrCat("node ", node),
                  "what it is called is no host's name",
                  "a name for ssh, as launch --nodes takes it",
                  "node_name in its configuration; or name hosts: --hosts, --hostfile",
                  {}});
  }
  if (ssh.hosts.empty() && ssh.nameless.empty()) {
    findings.Add({"MC613",
                  "ssh",
                  !ssh.of_cluster ? "all that were named are this machine, which needs none"
                  : facts.cluster.daemon_answers ? "the daemon knows no other node"
                                                 : "no daemon answers that would know other nodes",
                  "hosts besides this machine",
                  "name some: --hosts a,b, or --hostfile FILE",
                  {}});
  }
  for (const SshHostFacts& host : ssh.hosts) {
    if (host.answer != SshAnswer::kReached) {
      AddUnreached(facts, host, findings);
      continue;
    }
    bool well = CheckProgram(facts, host, findings);
    if (!host.version.empty()) well = CheckDaemonThere(facts, host, findings) && well;
    if (!well) continue;
    findings.Add({"MC614",
                  absl::StrCat("host ", host.host),
                  absl::StrCat(host.path, " of release ", host.version, ", node ", host.node,
                               " of cluster ", host.cluster),
                  "",
                  "",
                  {}});
  }
}

}  // namespace mlxcomm::ctl
