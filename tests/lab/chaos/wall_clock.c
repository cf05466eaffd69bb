/* Moves the wall clock of the processes that load this library, and only that: what is measured with the monotonic
 * clock goes on as if nothing had happened, which is how it is when a machine's clock is set.
 *
 *   cc -shared -fPIC -O2 -o wall_clock.so wall_clock.c -ldl
 *   LD_PRELOAD=wall_clock.so WALL_CLOCK_FILE=offset program     (`offset` holds eight bytes: seconds, may be negative)
 *
 * Deadlines by the wall clock are given back to the kernel as it knows them.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *shared;
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define EPOCH_S 500000000 /* deadlines beyond are of the wall clock; a monotonic one counts from the boot */

__attribute__((constructor)) static void open_offset(void) {
    const char *path = getenv("WALL_CLOCK_FILE");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *found = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    if (found != MAP_FAILED) shared = found;
    close(file);
}

static int64_t offset(void) { return shared ? *shared : 0; }

static struct timespec kernels(const struct timespec *deadline) {
    struct timespec real = *deadline;
    if (real.tv_sec > EPOCH_S) real.tv_sec -= offset();
    return real;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static __typeof__(&clock_gettime) real;
    if (!real) real = REAL(clock_gettime);
    int result = real(clock, now);
    if (!result && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += offset();
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    static __typeof__(&gettimeofday) real;
    if (!real) real = REAL(gettimeofday);
    int result = real(now, zone);
    if (!result && now) now->tv_sec += offset();
    return result;
}

time_t time(time_t *result) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result) *result = now.tv_sec;
    return now.tv_sec;
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict deadline) {
    static __typeof__(&pthread_cond_timedwait) real;
    /* The first version of this symbol takes another kind of condition. */
    if (!real) real = (__typeof__(real))dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    if (!real) real = REAL(pthread_cond_timedwait);
    struct timespec until = kernels(deadline);
    return real(condition, mutex, &until);
}

int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex, const struct timespec *restrict deadline) {
    static __typeof__(&pthread_mutex_timedlock) real;
    if (!real) real = REAL(pthread_mutex_timedlock);
    struct timespec until = kernels(deadline);
    return real(mutex, &until);
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict deadline) {
    static __typeof__(&sem_timedwait) real;
    if (!real) real = REAL(sem_timedwait);
    struct timespec until = kernels(deadline);
    return real(semaphore, &until);
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *wanted, struct timespec *rest) {
    static __typeof__(&clock_nanosleep) real;
    if (!real) real = REAL(clock_nanosleep);
    struct timespec until = *wanted;
    if (clock == CLOCK_REALTIME && (flags & TIMER_ABSTIME)) until = kernels(wanted);
    return real(clock, flags, &until, rest);
}
