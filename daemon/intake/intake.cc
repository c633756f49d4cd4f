#include "daemon/intake/intake.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <openssl/rand.h>
#include <spdlog/spdlog.h>
#include <asio/post.hpp>

#include "absl/strings/str_cat.h"
#include "daemon/platform/machine.h"
#include "proto/queue/descriptor_passing.h"
#include "proto/queue/doorbell.h"
#include "proto/queue/socket_options.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::intake {
namespace {

// The loop never waits: an answer fits the buffer of a new socket.
constexpr std::uint64_t kAnswerTimeoutNs = 0;

std::uint64_t ArenaBytesMax(const IntakeOptions& options) {
  return options.arena_bytes_max != 0 ? options.arena_bytes_max : platform::PhysicalMemoryBytes();
}

Amounts LimitsOfAll(const IntakeOptions& options) {
  Amounts all = options.all;
  all.clients = options.clients_max;
  // Clients that have ended keep their arenas for a moment while new ones connect.
  if (all.arena_bytes == 0) all.arena_bytes = 2 * all.clients * ArenaBytesMax(options);
  if (all.operations == 0) all.operations = all.clients * Session::kInFlightMax;
  return all;
}

Amounts LimitsPerUser(const IntakeOptions& options) {
  const Amounts all = LimitsOfAll(options);
  const auto part = [&options](std::uint64_t own, std::uint64_t whole) {
    if (own != 0) return std::min(own, whole);
    return options.all_users ? whole - whole / 4 : whole;
  };
  return {part(options.per_user.clients, all.clients),
          part(options.per_user.arena_bytes, all.arena_bytes),
          part(options.per_user.operations, all.operations)};
}

std::string TokenKey(const Session::Token& token) {
  return {reinterpret_cast<const char*>(token.data()), token.size()};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Intake>> Intake::Create(asio::io_context& io, IntakeOptions options,
                                                       IntakeListener& listener,
                                                       ListenSocket listen_socket) {
  std::unique_ptr<Intake> intake(new Intake(io, std::move(options), listener));
  if (absl::Status status = intake->acceptor_.Listen(std::move(listen_socket)); !status.ok())
    return status;
  return intake;
}

Intake::Intake(asio::io_context& io, IntakeOptions options, IntakeListener& listener)
    : io_(io),
      options_(std::move(options)),
      listener_(listener),
      acceptor_(
          io, {options_.socket_path, options_.hello_timeout_ns, options_.all_users, options_.users},
          *this),
      pauses_end_(io),
      limits_(LimitsPerUser(options_), LimitsOfAll(options_)) {}

Intake::~Intake() {
  StopAccepting();
  for (const auto& [id, session] : sessions_) session->End();
}

Failure Intake::CheckTools(const Peer& peer) const {
  if (tools_ >= kToolsMax + (peer.user.sees_all ? kToolsKept : 0)) {
    return {FailureCode::kResourceExhausted, kNoRank,
            absl::StrCat("it serves ", tools_, " tools already, the limit: end some of them")};
  }
  const auto own = std::ranges::count_if(sessions_, [&peer](const auto& entry) {
    const Session& other = *entry.second;
    return other.peer().role == peer.role && !other.ended() && other.peer().uid == peer.uid;
  });
  if (peer.user.sees_all || own < kToolsPerUserMax) return {};
  return {FailureCode::kResourceExhausted, kNoRank,
          absl::StrCat("it serves ", own, " tools of user ", peer.uid,
                       " already, the limit: end some of them")};
}

Failure Intake::OnHello(LocalStream::socket& socket, const queue::ClientHello& hello,
                        const queue::PeerCredentials& credentials, const User& user) {
  const Peer peer{hello.role, credentials.uid, credentials.pid, user};
  if (hello.role != queue::ProcessRole::kClient) {
    const Failure failure = CheckTools(peer);
    return failure.ok() ? Open(socket, peer, 0, nullptr) : failure;
  }
  if (!refusal_.ok()) return refusal_;
  const std::uint64_t limit = std::min(ArenaBytesMax(options_), limits_.per_user().arena_bytes);
  const std::uint64_t wanted = hello.arena_bytes == 0 ? limit : std::min(hello.arena_bytes, limit);
  const std::uint64_t arena_bytes = std::max<std::uint64_t>(wanted, 1);
  Failure failure = limits_.Admit(peer.uid, user, arena_bytes);
  if (!failure.ok()) return failure;
  UserUse& use = limits_.Of(peer.uid);
  failure = Open(socket, peer, arena_bytes, &use);
  if (failure.ok()) return failure;
  limits_.Leave(use);
  limits_.Release(use, arena_bytes, 0);
  return failure;
}

Failure Intake::Open(LocalStream::socket& socket, const Peer& peer, std::uint64_t arena_bytes,
                     UserUse* use) {
  Session::Token token{};
  if (RAND_bytes(token.data(), static_cast<int>(token.size())) != 1) {
    return {FailureCode::kInternal, kNoRank, "cannot make a random token"};
  }
  int ends[2] = {-1, -1};
  if (!queue::MakeDoorbellPair(ends)) {
    return {FailureCode::kResourceExhausted, kNoRank,
            absl::StrCat("cannot make a doorbell: ", std::strerror(errno))};
  }
  queue::RefuseDescriptors(ends[0]);
  const FileDescriptor theirs(ends[1]);
  auto created =
      Session::Create(io_, next_session_, peer, token, FileDescriptor(ends[0]), arena_bytes, *this);
  if (!created.ok()) {
    return {FailureCode::kResourceExhausted, kNoRank, std::string(created.status().message())};
  }
  Session& session = **created;
  FileDescriptor duplicate(::fcntl(socket.native_handle(), F_DUPFD_CLOEXEC, 0));
  ControlConnection connection;
  if (!duplicate.valid() || !connection.MakePair()) {
    return {FailureCode::kResourceExhausted, kNoRank,
            absl::StrCat("cannot make its control connection: ", std::strerror(errno))};
  }
  const Failure full = peer.user.sees_all ? Failure() : CheckFilesLeft(connection.grpc.get());
  if (!full.ok()) return full;
  session.set_use(use, arena_bytes);
  session.KeepConnection(std::move(duplicate));
  queue::DaemonHello answer{};
  answer.magic = queue::kDaemonHelloMagic;
  answer.version = queue::kHelloVersion;
  answer.scheduling = options_.scheduling;
  answer.spin_ms = options_.spin_ms;
  answer.arena_bytes = session.arena_bytes();
  answer.token = token;
  answer.rendezvous_timeout_ns = options_.rendezvous_timeout_ns;
  int descriptors[queue::kClientDescriptors] = {theirs.get(), -1, -1};
  int count = queue::kToolDescriptors;
  if (session.is_client()) {
    descriptors[0] = session.arena_descriptor();
    descriptors[1] = session.queue_descriptor();
    descriptors[2] = theirs.get();
    count = queue::kClientDescriptors;
  }
  if (!queue::SendWithDescriptors(socket.native_handle(), &answer, sizeof answer, descriptors,
                                  count, kAnswerTimeoutNs)) {
    return {FailureCode::kUnavailable, kNoRank, "it left during the hello"};
  }
  asio::error_code ignored;
  connection.SetProcess(FileDescriptor(socket.release(ignored)));
  Adopt(*std::move(created), std::move(connection));
  return {};
}

void Intake::Adopt(std::unique_ptr<Session> opened, ControlConnection connection) {
  Session& session = *opened;
  const SessionId id = next_session_++;
  {
    const std::lock_guard lock(known_mutex_);
    known_[TokenKey(session.token())] = {{id, session.peer()},
                                         absl::StrCat("fd:", connection.grpc.get())};
  }
  if (session.is_client()) {
    ++clients_;
    arena_bytes_ += session.arena_bytes();
    polled_.push_back(&session);
  } else {
    ++tools_;
  }
  sessions_.emplace(id, std::move(opened));
  rung_.reserve(sessions_.size());  // It holds each session at most once.
  paused_.reserve(sessions_.size());
  session.Watch();
  listener_.OnSessionOpened(id, session.peer());
  if (session.is_client()) listener_.OnArenaMade(session.arena_segment(), session.arena_pages());
  listener_.OnConnection(id, std::move(connection));
}

std::size_t Intake::Poll() {
  acceptor_.OnTurn();
  if (!rung_.empty() && ++turns_undrained_ >= kTurnsUndrainedMax) DrainRings();
  ++turn_;
  std::size_t taken = 0;
  // Each turn begins with another session, so that a user's limit does not starve one of them.
  for (std::size_t i = 0; i < polled_.size(); ++i) {
    Session& session = *polled_[(turn_ + i) % polled_.size()];
    ChargeFailures(session);
    UserUse& use = *session.use();
    if (std::exchange(use.turn, turn_) != turn_) use.taken_in_turn = 0;
    std::size_t& of_user = use.taken_in_turn;
    for (std::size_t n = 0; n < kSubmissionsPerTurn && of_user < kSubmissionsOfUserPerTurn; ++n) {
      if (session.ended() || session.is_paused() || !TakeSubmission(session)) break;
      ++of_user;
      ++taken;
    }
  }
  std::erase_if(polled_, [](const Session* session) { return session->ended(); });
  return taken;
}

void Intake::ChargeFailures(Session& session) {
  const std::uint32_t failures = session.TakeFailures();
  if (failures == 0) return;
  const std::uint64_t now_ns = platform::MonotonicNow();
  const auto bucket = failed_calls_.try_emplace(session.peer().uid, kFailedCalls, now_ns).first;
  if (!bucket->second.Take(failures, now_ns)) Pause(session);
}

void Intake::Pause(Session& session) {
  if (session.is_paused() || session.ended()) return;
  session.set_paused(true);
  paused_.push_back(&session);
  if (paused_.size() == 1) AwaitPauses();
}

void Intake::AwaitPauses() {
  pauses_end_.expires_after(std::chrono::nanoseconds(kPauseNs));
  pauses_end_.async_wait([this](const asio::error_code& cancelled) {
    if (!cancelled) EndPauses();
  });
}

void Intake::EndPauses() {
  const std::uint64_t now_ns = platform::MonotonicNow();
  std::erase_if(failed_calls_, [&](const auto& user) { return user.second.IsFull(now_ns); });
  std::erase_if(paused_, [&](Session* session) {
    const auto found = failed_calls_.find(session->peer().uid);
    if (found != failed_calls_.end() && found->second.WaitNs(now_ns) > 0) return session->ended();
    session->set_paused(false);
    if (!session->ended()) session->ListenForRings();
    return true;
  });
  if (!paused_.empty()) AwaitPauses();
}

bool Intake::TakeSubmission(Session& session) {
  queue::SubmissionEntry entry;
  switch (session.PopSubmission(entry)) {
    case queue::RingResult::kNothing: return false;
    case queue::RingResult::kCorrupt:
      EndForGarbage(session, "its queue's positions are invalid");
      return false;
    case queue::RingResult::kDone: break;
  }
  if (entry.purpose == queue::SubmissionPurpose::kClose) {
    session.UncountInFlight();  // A close is not an operation.
    listener_.OnCloseAsked(session.id(), entry.group);
    return true;
  }
  std::optional<collective::Call> call = Check(session, entry, /*adopted=*/false);
  if (!call.has_value()) return !session.ended();
  listener_.OnSubmission(*call);
  return true;
}

// `entry` counts as in flight already.
std::optional<collective::Call> Intake::Check(Session& session, const queue::SubmissionEntry& entry,
                                              bool adopted) {
  const Failure too_many = limits_.BeginOperation(*session.use());
  // A client library waits for a completion before it exceeds its limit.
  if (session.in_flight() > Session::kInFlightMax) {
    EndForGarbage(session,
                  absl::StrCat("more than ", Session::kInFlightMax, " operations in flight"));
    return std::nullopt;
  }
  // An adopted operation started earlier, and other ranks are waiting for it.
  if (!too_many.ok() && !adopted) {
    Complete(session.id(), entry.ticket, entry.group, too_many, false);
    return std::nullopt;
  }
  const absl::StatusOr<collective::Call> checked =
      CheckSubmission(session.id(), entry, session.arena(), session.arena_bytes());
  if (checked.ok()) return *checked;
  const std::string why(checked.status().message());
  if (absl::IsInvalidArgument(checked.status())) {
    Complete(session.id(), entry.ticket, entry.group, Invalid(why), false);
  } else {
    EndForGarbage(session, adopted ? why + " on its group's page" : why);
  }
  return std::nullopt;
}

std::optional<collective::Call> Intake::TakeOver(SessionId id,
                                                 const queue::SubmissionEntry& entry) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end() || !found->second->is_client()) return std::nullopt;
  Session& session = *found->second;
  if (session.ended()) {
    // The other ranks still need its last contribution.
    const absl::StatusOr<collective::Call> checked =
        CheckSubmission(id, entry, session.arena(), session.arena_bytes());
    return checked.ok() ? std::optional(*checked) : std::nullopt;
  }
  session.CountInFlight();
  return Check(session, entry, /*adopted=*/true);
}

void Intake::AnswerClose(SessionId id, std::uint64_t group) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end() || found->second->ended()) return;
  queue::CompletionEntry entry{};
  entry.group = group;
  entry.rank_at_fault = kNoRank;
  found->second->CountInFlight();
  if (!found->second->PushCompletion(entry)) {
    EndForGarbage(*found->second, "it never reads its completions");
  }
}

std::byte* Intake::MakePage(std::uint64_t group, std::size_t bytes,
                            const std::vector<SessionId>& sessions) {
  if (!options_.ranks_meet || !AreOfOneAccount(sessions)) return nullptr;
  auto segment = platform::SharedSegment::Create("mlxcomm-page", bytes);
  if (!segment.ok()) {
    spdlog::warn(
        "group {} has no shared page, so its ranks use the daemon for small operations: {}", group,
        std::string(segment.status().message()));
    return nullptr;
  }
  return pages_.insert_or_assign(group, *std::move(segment)).first->second.data();
}

// A client that does not receive it never reports ready, and the page stays unused.
void Intake::GivePage(std::uint64_t group, const std::vector<SessionId>& sessions) {
  platform::SharedSegment& page = pages_.at(group);
  for (const SessionId id : sessions) {
    const auto found = sessions_.find(id);
    if (found == sessions_.end() || found->second->ended() ||
        !found->second->PassDescriptor(page.descriptor())) {
      spdlog::info("group {}: a rank did not accept the shared page for small operations", group);
    }
  }
  page.CloseDescriptor();
}

// All ranks may write to a page, and processes of different accounts do not trust each other's
// memory.
bool Intake::AreOfOneAccount(const std::vector<SessionId>& sessions) const {
  std::optional<uid_t> account;
  for (const SessionId id : sessions) {
    const auto found = sessions_.find(id);
    if (found == sessions_.end() || found->second->ended()) return false;
    const uid_t own = found->second->peer().uid;
    if (account.value_or(own) != own) return false;
    account = own;
  }
  return true;
}

void Intake::EndForGarbage(Session& session, const std::string& what) {
  ++garbage_;
  End(session.id(), absl::InvalidArgumentError(absl::StrCat("garbage in its queue: ", what)));
}

bool Intake::PrepareToSleep() {
  DrainRings();
  for (std::size_t i = 0; i < polled_.size(); ++i) {
    const bool read = !polled_[i]->ended() && !polled_[i]->is_paused();
    if (!read || polled_[i]->PrepareToSleep()) continue;
    for (std::size_t k = 0; k < i; ++k) polled_[k]->WakeUp();
    return false;
  }
  return true;
}

void Intake::WakeUp() {
  for (Session* const session : polled_) {
    if (!session->ended()) session->WakeUp();
  }
}

void Intake::Complete(SessionId id, std::uint64_t ticket, std::uint64_t group,
                      const Failure& failure, bool group_failed) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end() || found->second->ended()) return;
  queue::CompletionEntry entry;
  entry.ticket = ticket;
  entry.group = group;
  entry.rank_at_fault = failure.rank;
  entry.failure_code = static_cast<std::uint8_t>(failure.code);
  entry.group_failed = group_failed ? 1 : 0;
  std::fill(std::begin(entry.reserved), std::end(entry.reserved), std::uint8_t{0});
  entry.message_bytes =
      static_cast<std::uint16_t>(Utf8Prefix(failure.message, kFailureMessageBytesMax)
                                     .copy(entry.message, kFailureMessageBytesMax));
  if (found->second->in_flight() > 0) limits_.EndOperation(*found->second->use());
  if (!failure.ok()) found->second->CountFailure();
  if (!found->second->PushCompletion(entry)) {
    EndForGarbage(*found->second, "it never reads its completions");
  }
}

// The ring has woken the loop; doorbells are emptied after submissions.
void Intake::OnRung(SessionId id) {
  const auto found = sessions_.find(id);
  if (found != sessions_.end() && !found->second->ended()) rung_.push_back(id);
}

void Intake::DrainRings() {
  for (const SessionId id : rung_) {
    const auto found = sessions_.find(id);
    if (found == sessions_.end() || found->second->ended()) continue;
    Session& session = *found->second;
    if (!session.TakeRings()) {
      OnProcessGone(id);
    } else if (session.RingsForNothing()) {
      session.IgnoreRings();
      Pause(session);
    } else {
      session.ListenForRings();
    }
  }
  rung_.clear();
  turns_undrained_ = 0;
}

// OnSessionEnded is posted, so that the listener may call End() from any callback.
void Intake::End(SessionId id, const absl::Status& why) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end() || found->second->ended()) return;
  Session& session = *found->second;
  session.End();
  {
    const std::lock_guard lock(known_mutex_);
    known_.erase(TokenKey(session.token()));
  }
  if (session.is_client()) {
    --clients_;
    arena_bytes_ -= session.arena_bytes();
    limits_.Leave(*session.use());
  } else {
    --tools_;
  }
  asio::post(io_, [this, id, why] { listener_.OnSessionEnded(id, why); });
}

CopiedResults Intake::ResultsCopiedBy(SessionId id) const {
  const auto found = sessions_.find(id);
  if (found == sessions_.end() || !found->second->is_client()) return {};
  return found->second->results_copied();
}

void Intake::ReleaseMemory(SessionId id) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end() || !found->second->ended()) return;
  const Session& session = *found->second;
  if (session.is_client()) {
    limits_.Release(*session.use(), session.counted_arena_bytes(), session.in_flight());
    listener_.OnArenaReleased(session.arena());
  }
  std::erase(polled_, found->second.get());
  std::erase(paused_, found->second.get());
  std::erase(rung_, id);
  sessions_.erase(found);
}

std::optional<SessionIdentity> Intake::Find(std::string_view token,
                                            std::string_view grpc_peer) const {
  const std::lock_guard lock(known_mutex_);
  const auto found = known_.find(std::string(token));
  if (found == known_.end()) return std::nullopt;
  const bool names_descriptor = grpc_peer.substr(0, 3) == "fd:";
  if (names_descriptor && found->second.grpc_peer != grpc_peer) return std::nullopt;
  return found->second.identity;
}

}  // namespace mlxcomm::intake
