// Hellos of local processes: the first bytes on the daemon's Unix socket.
//
// Hostile: any process that may connect to the socket. What it sends, in how many pieces, with
// which descriptors, when it leaves, and, once accepted, the positions in its queue.
// Read by: intake::Acceptor and Intake (daemon/intake/acceptor.cc, intake.cc,
// session.cc), on a real socket in a folder of its own, driven without threads.
//
// Must hold:
//   - a complete hello is answered with exactly one DaemonHello, a partial one is not answered
//     while the connection lasts;
//   - a process is accepted if it has the right magic, version, an existing role and no reserved
//     bits, which is written here again; all others are refused with a message that says why, and
//     get no descriptor;
//   - an arena has the wanted size, at most the limit, in whole pages; arena and queue are as large
//     as the answer says; a tool gets a doorbell alone;
//   - not one byte behind the hello is read;
//   - an impossible position in the queue ends the session, and nothing else does;
//   - afterwards nothing is left: no client, no arena, no descriptor.
//
// Script: a byte of options, a byte for the size of pieces; eight for the queue's position; then
// all bytes to send.
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <map>
#include <memory>
#include <utility>

#include <spdlog/spdlog.h>
#include <asio/io_context.hpp>

#include "daemon/intake/intake.h"
#include "proto/queue/descriptor_passing.h"
#include "proto/queue/hello.h"
#include "proto/queue/layout.h"
#include "proto/system/file_descriptor.h"
#include "proto/types/plain_text.h"
#include "tests/fuzz/fuzz.h"

namespace mlxcomm::intake {
namespace {

using fuzz::Input;

constexpr std::uint64_t kArenaMax = 1 << 20;
constexpr std::uint64_t kRendezvousNs = 4711;

enum Option : std::uint8_t {
  kLeaves = 1,         // It sends nothing more, and the daemon sees that.
  kSendsFile = 2,      // A descriptor comes with the first piece.
  kUsesQueue = 4,      // The position is written, and the entry behind the hello.
  kAnotherComes = 8,   // After it, and it is served.
  kClosesAtOnce = 16,  // Before it has read its answer.
};

// The lowest descriptor that is free.
int FreeDescriptor() {
  const int lowest = ::dup(0);
  if (lowest >= 0) ::close(lowest);
  return lowest;
}

// The daemon's side, for all runs.
class GuardedListenSocket final : IntakeListener {
 public:
  GuardedListenSocket() {
    spdlog::set_level(spdlog::level::off);
    folder_ = fuzz::TemporaryFolder() + "/hello-XXXXXX";
    if (::mkdtemp(folder_.data()) == nullptr) std::abort();
    IntakeOptions options;
    options.socket_path = folder_ + "/socket";
    options.arena_bytes_max = kArenaMax;
    options.hello_timeout_ns = 3'600'000'000'000;
    options.rendezvous_timeout_ns = kRendezvousNs;
    auto created = Intake::Create(io_, options, *this);
    if (!created.ok()) std::abort();
    intake_ = *std::move(created);
  }
  ~GuardedListenSocket() override {
    intake_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  FileDescriptor Connect() const {
    FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    (folder_ + "/socket").copy(address.sun_path, sizeof address.sun_path - 1);
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      std::abort();
    }
    return socket;
  }
  // Everything that is possible now is done.
  void Run() {
    for (int idle = 0; idle < 2;) {
      io_.restart();
      idle = io_.poll() + intake_->Poll() > 0 ? 0 : idle + 1;
      if (idle > 0) intake_->PrepareToSleep();
      intake_->WakeUp();
    }
  }
  const Intake& intake() const { return *intake_; }
  const std::map<SessionId, ControlConnection>& connections() const { return connections_; }
  std::uint64_t submissions() const { return submissions_; }

 private:
  void OnSessionOpened(SessionId /*session*/, const Peer& peer) override {
    MLXCOMM_MUST(peer.uid == ::geteuid() && peer.pid == ::getpid(),
                 "a peer is who the kernel says");
  }
  void OnConnection(SessionId session, ControlConnection connection) override {
    connections_.emplace(session, std::move(connection));
  }
  void OnSubmission(collective::Call& call) override {
    ++submissions_;
    intake_->Complete(call.session, call.ticket, call.group, {}, false);
  }
  void OnSessionEnded(SessionId session, const absl::Status& /*why*/) override {
    MLXCOMM_MUST(connections_.erase(session) == 1, "a session ends once");
    intake_->ReleaseMemory(session);
  }

  asio::io_context io_;
  std::string folder_;
  std::unique_ptr<Intake> intake_;
  std::map<SessionId, ControlConnection> connections_;
  std::uint64_t submissions_ = 0;
};

bool IsWelcome(const queue::ClientHello& hello) {
  const auto role = static_cast<std::uint32_t>(hello.role);
  return hello.magic == 0x6d6c78636f6d6d63 && hello.version == 2 && (role == 1 || role == 2) &&
         hello.reserved == 0;
}

struct Answer {
  bool came = false;
  queue::DaemonHello hello{};
  FileDescriptor descriptors[queue::kDescriptorsMax];
  int count = 0;
};

Answer TakeAnswer(int socket) {
  Answer answer;
  pollfd waited{socket, POLLIN, 0};
  if (::poll(&waited, 1, 0) != 1) return answer;
  int descriptors[queue::kDescriptorsMax];
  answer.came =
      queue::ReceiveWithDescriptors(socket, &answer.hello, sizeof answer.hello, descriptors,
                                    queue::kDescriptorsMax, &answer.count, 0);
  for (int i = 0; i < answer.count; ++i) answer.descriptors[i].Reset(descriptors[i]);
  return answer;
}

void CheckRefusal(const Answer& answer) {
  const std::string_view message(answer.hello.message);
  MLXCOMM_MUST(answer.hello.message[sizeof answer.hello.message - 1] == '\0' && !message.empty() &&
                   IsPlainText(message),
               "a refusal says why");
  MLXCOMM_MUST(answer.count == 0 && answer.hello.arena_bytes == 0 &&
                   answer.hello.token == decltype(answer.hello.token){},
               "who is refused gets nothing");
}

std::uint64_t SizeOf(int descriptor) {
  struct stat facts{};
  return ::fstat(descriptor, &facts) == 0 ? static_cast<std::uint64_t>(facts.st_size) : 0;
}

void CheckWelcome(const queue::ClientHello& hello, const Answer& answer) {
  MLXCOMM_MUST(answer.hello.rendezvous_timeout_ns == kRendezvousNs &&
                   answer.hello.message[0] == 0 &&
                   answer.hello.token != decltype(answer.hello.token){},
               "a welcome is whole");
  const bool is_client = hello.role == queue::ProcessRole::kClient;
  MLXCOMM_MUST(answer.count == (is_client ? queue::kClientDescriptors : queue::kToolDescriptors),
               "each role has its descriptors");
  if (!is_client) {
    MLXCOMM_MUST(answer.hello.arena_bytes == 0, "a tool has no arena");
    return;
  }
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t wanted =
      hello.arena_bytes == 0 ? kArenaMax : std::min(hello.arena_bytes, kArenaMax);
  const std::uint64_t arena = (wanted + page - 1) / page * page;
  MLXCOMM_MUST(answer.hello.arena_bytes == arena && SizeOf(answer.descriptors[0].get()) == arena,
               "an arena is what was wanted, within the limit, in whole pages");
  MLXCOMM_MUST(SizeOf(answer.descriptors[1].get()) >= queue::kQueueSegmentBytes,
               "the queue is as large as its layout says");
}

// What an accepted client does to its queue.
void UseQueue(GuardedListenSocket& listen_socket, const Answer& answer, std::uint64_t position,
              const std::string& behind) {
  void* const mapped = ::mmap(nullptr, queue::kQueueSegmentBytes, PROT_READ | PROT_WRITE,
                              MAP_SHARED, answer.descriptors[1].get(), 0);
  if (mapped == MAP_FAILED) std::abort();
  auto& header = *static_cast<queue::QueueHeader*>(mapped);
  MLXCOMM_MUST(header.magic == queue::kQueueMagic && header.version == queue::kQueueVersion &&
                   header.submission_slots == queue::kSubmissionSlots &&
                   header.completion_slots == queue::kCompletionSlots,
               "a queue says what it is");
  auto* const slots = static_cast<std::byte*>(mapped) + queue::kSubmissionsOffset;
  std::memcpy(slots, behind.data(), std::min(behind.size(), sizeof(queue::SubmissionEntry)));
  const std::uint64_t garbage = listen_socket.intake().counters().ended_for_garbage;
  const std::uint64_t submitted = listen_socket.submissions();
  header.submissions.written.store(position);
  listen_socket.Run();
  const std::uint64_t answered = header.completions.written.load();
  const std::uint64_t read = header.submissions.read.load();
  const bool ended = listen_socket.intake().counters().ended_for_garbage > garbage;
  const bool is_open = listen_socket.intake().counters().clients == 1;
  MLXCOMM_MUST(ended == !is_open, "only garbage in its queue ends a session");
  MLXCOMM_MUST(position <= queue::kSubmissionSlots || (ended && read == 0),
               "an impossible position ends the session, and nothing is read");
  MLXCOMM_MUST(ended || (read == position && answered == position),
               "each submission is answered: what is taken here, and what is wrong");
  MLXCOMM_MUST(listen_socket.submissions() - submitted <= read,
               "no more is submitted than was read");
  ::munmap(mapped, queue::kQueueSegmentBytes);
}

void ExpectService(GuardedListenSocket& listen_socket) {
  const FileDescriptor socket = listen_socket.Connect();
  const queue::ClientHello hello{queue::kClientHelloMagic, queue::kHelloVersion,
                                 queue::ProcessRole::kTool, 0, 0};
  if (::send(socket.get(), &hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello) std::abort();
  listen_socket.Run();
  const Answer answer = TakeAnswer(socket.get());
  MLXCOMM_MUST(answer.came && answer.hello.failure_code == FailureCode::kNone,
               "others are served all the same");
}

void SendPieces(GuardedListenSocket& listen_socket, int socket, const std::string& text,
                std::size_t piece, bool file) {
  static const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  for (std::size_t at = 0; at < text.size(); at += piece) {
    const std::size_t bytes = std::min(piece, text.size() - at);
    // If it was already refused, the rest has no reader.
    const int count = at == 0 && file ? 1 : 0;
    const bool sent = queue::SendWithDescriptors(socket, text.data() + at, bytes, &null, count, 0);
    if (!sent && errno == EPERM)  // From Linux 6.16 on, the intake accepts no descriptors.
      (void)queue::SendWithDescriptors(socket, text.data() + at, bytes, nullptr, 0, 0);
    listen_socket.Run();
  }
}

void CheckProcess(GuardedListenSocket& listen_socket, Input& input) {
  const std::uint8_t options = input.TakeByte();
  const std::size_t piece = std::size_t{1} + input.TakeByte();
  const auto position = input.Take<std::uint64_t>();
  const std::string text = input.TakeRest();
  const std::uint64_t refused = listen_socket.intake().counters().refused;

  FileDescriptor socket = listen_socket.Connect();
  SendPieces(listen_socket, socket.get(), text, piece, (options & kSendsFile) != 0);
  if ((options & kLeaves) != 0) ::shutdown(socket.get(), SHUT_WR);
  if ((options & kClosesAtOnce) != 0) return;
  listen_socket.Run();

  Answer answer = TakeAnswer(socket.get());
  queue::ClientHello hello{};
  const bool is_whole = text.size() >= sizeof hello;
  MLXCOMM_MUST(answer.came == (is_whole || (options & kLeaves) != 0),
               "a whole hello, or the end of one, is answered; half of one is not");
  if (!answer.came) return;
  std::memcpy(&hello, text.data(), std::min(text.size(), sizeof hello));
  const bool is_welcome = is_whole && IsWelcome(hello);
  MLXCOMM_MUST(answer.hello.magic == queue::kDaemonHelloMagic &&
                   answer.hello.version == queue::kHelloVersion,
               "an answer says what it is");
  MLXCOMM_MUST((answer.hello.failure_code == FailureCode::kNone) == is_welcome,
               "welcome is whose hello is right");
  MLXCOMM_MUST(listen_socket.intake().counters().refused - refused == (is_welcome ? 0u : 1u),
               "who is refused is counted");
  if (!is_welcome) return CheckRefusal(answer);
  CheckWelcome(hello, answer);
  const std::string behind = text.substr(sizeof hello);
  MLXCOMM_MUST(listen_socket.connections().size() == 1, "the connection is handed on");
  std::string left(behind.size() + 1, '\0');
  const ssize_t got = ::recv(listen_socket.connections().begin()->second.process.get(), left.data(),
                             left.size(), MSG_DONTWAIT);
  left.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  MLXCOMM_MUST(left == behind, "not one byte behind the hello is read");
  const bool is_client = hello.role == queue::ProcessRole::kClient;
  if (is_client && (options & kUsesQueue) != 0) UseQueue(listen_socket, answer, position, behind);
}

}  // namespace
}  // namespace mlxcomm::intake

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  using namespace mlxcomm::intake;  // NOLINT
  static GuardedListenSocket listen_socket;
  static const bool warm = [] {  // Files that are opened once, at the first use, are open now.
    mlxcomm::fuzz::Input nothing(nullptr, 0);
    CheckProcess(listen_socket, nothing);
    return true;
  }();
  (void)warm;
  listen_socket.Run();
  const int free_before = FreeDescriptor();
  mlxcomm::fuzz::Input input(data, bytes);
  const bool another = bytes > 0 && (data[0] & kAnotherComes) != 0;
  CheckProcess(listen_socket, input);
  listen_socket.Run();
  if (another) ExpectService(listen_socket);
  listen_socket.Run();
  const IntakeCounters counters = listen_socket.intake().counters();
  MLXCOMM_MUST(
      counters.clients == 0 && counters.arena_bytes == 0 && listen_socket.connections().empty(),
      "no session is left of who has gone");
  const Amounts& used = listen_socket.intake().use().used;
  MLXCOMM_MUST(used.clients == 0 && used.arena_bytes == 0 && used.operations == 0 &&
                   listen_socket.intake().use().users.empty(),
               "nothing is counted of who has gone");
  MLXCOMM_MUST(FreeDescriptor() == free_before, "no descriptor is left of who has gone");
  return 0;
}
