// The file of a listening Unix socket: where it may lie, and when it may be replaced.
//
//   Claim(): the folder is safe ─▶ the lock is ours ─▶ no process answers at the path
//   Bind() ─▶ (the acceptor listens) ─▶ Remove(), or HandOver() ─▶ (exec) ─▶ Adopt()
//
// All under a lock beside the socket ("PATH.lock", empty, held until Remove() or the end of the process),
// for two daemons that start at once (README.md, Decisions). "PATH.running" shows clients that there is a
// daemon that cannot accept them at once (proto/queue/dial.h), and log rotation which process to signal: it
// holds its number.
//
// Owner: Acceptor. Thread: the loop's.
#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "proto/system/file_descriptor.h"

namespace mlxcomm::intake {

// What one daemon keeps open for the program that takes its place: those who connect in between wait in the
// socket's backlog, and no other daemon can claim the path.
struct ListenSocket {
  FileDescriptor socket;  // Listening; not valid: there is none.
  FileDescriptor lock;
};

class SocketFile {
 public:
  SocketFile(std::string path, bool all_users) : path_(std::move(path)), all_users_(all_users) {}
  ~SocketFile() { Remove(); }

  // ALREADY_EXISTS: another daemon is there. A socket without a listener is removed, a missing
  // folder made. FAILED_PRECONDITION: the place is unfit, with the remedy.
  absl::Status Claim();
  // Gives `socket` its name: for its user alone (0600), or for all users (0666).
  absl::Status Bind(int socket);
  // In place of Claim() and Bind(): both were done by the program before this one. NOT_FOUND: not for this
  // path; then the door is closed, and what it left is removed.
  absl::Status Adopt(ListenSocket& listen_socket);
  // Removes the socket that Bind() made, and releases the lock.
  void Remove();
  // Leaves the socket where it is; the lock goes along.
  FileDescriptor HandOver();

 private:
  absl::Status MakeFolder() const;
  absl::Status CheckFolder() const;
  absl::Status TakeLock();
  absl::Status ClearPath() const;
  absl::Status ReportPresence();
  absl::Status LetUsersIn() const;

  std::string path_;
  bool all_users_;
  FileDescriptor lock_;
  FileDescriptor presence_;
  bool bound_ = false;
};

}  // namespace mlxcomm::intake
