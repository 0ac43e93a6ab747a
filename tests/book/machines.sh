# What docs/cluster.md takes for granted: machines a, b and c with members of etcd over TLS, this machine's address, and certificates.
ip address add 10.0.0.1/24 dev lo
printf '127.0.0.1 localhost\n127.0.0.2 a\n127.0.0.3 b\n127.0.0.4 c\n' > hosts
mount --bind hosts /etc/hosts
for name in ca etcd-ca; do
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=$name -keyout $name.key -out $name.pem 2>> openssl.out
done
signed() {
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=$1 -keyout $1.key -out $1.csr 2>> openssl.out
  printf "subjectAltName=$2\nextendedKeyUsage=serverAuth,clientAuth\n" > $1.ext
  openssl x509 -req -in $1.csr -CA $3.pem -CAkey $3.key -CAcreateserial -days 2 -extfile $1.ext -out $1.pem 2>> openssl.out
}
signed a IP:10.0.0.1 ca
# Members check where a peer comes from: from 127.0.0.1, whichever of them it is.
signed member DNS:a,DNS:b,DNS:c,IP:127.0.0.1 etcd-ca
members=a=https://a:2380,b=https://b:2380,c=https://c:2380
place=2
for name in a b c; do
  etcd --name $name --data-dir etcd-$name --initial-cluster $members --snapshot-count 1000 --log-level error \
    --cert-file member.pem --key-file member.key --peer-cert-file member.pem --peer-key-file member.key --peer-trusted-ca-file etcd-ca.pem \
    --listen-client-urls https://127.0.0.$place:2379 --advertise-client-urls https://$name:2379 \
    --listen-peer-urls https://127.0.0.$place:2380 --initial-advertise-peer-urls https://$name:2380 > etcd-$name.out 2>&1 &
  place=$((place + 1))
done
