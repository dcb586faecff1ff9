// What clang checks of locks (-Wthread-safety, an error in ./dev check): which mutex guards a
// member, and which a function needs. For headers with mutexes; other compilers see nothing of it.
#pragma once

#if defined(__clang__)
#define LAMBENT_THREAD_ANNOTATION(annotation) __attribute__((annotation))
#else
#define LAMBENT_THREAD_ANNOTATION(annotation)
#endif

// Of a member: only with the mutex held.
#define GUARDED_BY(mutex) LAMBENT_THREAD_ANNOTATION(guarded_by(mutex))
// Of a function: its caller holds the mutex, or must not.
#define REQUIRES(...) LAMBENT_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) LAMBENT_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
// Of a function: its caller holds the mutex when it returns, or no longer.
#define ACQUIRE(...) LAMBENT_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define RELEASE(...) LAMBENT_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
// Of a function without a lock in sight, such as a lambda that runs where the mutex is held.
#define ASSERT_HELD(...) LAMBENT_THREAD_ANNOTATION(assert_capability(__VA_ARGS__))
// Of a function that returns a reference to the mutex.
#define RETURNS_MUTEX(mutex) LAMBENT_THREAD_ANNOTATION(lock_returned(mutex))
// Of a function that releases a lock that it was given, and takes it again: clang does not follow
// a lock through a reference.
#define NO_THREAD_SAFETY_ANALYSIS LAMBENT_THREAD_ANNOTATION(no_thread_safety_analysis)
// Of a mutex: which one is taken before it.
#define ACQUIRED_AFTER(...) LAMBENT_THREAD_ANNOTATION(acquired_after(__VA_ARGS__))
// Of a class: it is a mutex, or holds one for its lifetime.
#define IS_MUTEX LAMBENT_THREAD_ANNOTATION(capability("mutex"))
#define IS_LOCK LAMBENT_THREAD_ANNOTATION(scoped_lockable)
